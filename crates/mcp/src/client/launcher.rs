//! Starts stdio servers so that they exit with the gateway, even if that is killed.
//!
//! Linux can signal a process when its parent dies (`PR_SET_PDEATHSIG`), but only at its own request. So the gateway
//! starts its own binary, which makes that request and then executes the program. The signal is bound to the thread that
//! started the process, so one thread that lives as long as the gateway starts all programs.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use tokio::process::{Child, Command};
use tokio::runtime::Handle;

use crate::connection::StdioCommand;

/// First argument that makes the binary execute a program; followed by the gateway's process id, the program and its
/// arguments.
const EXEC_ARG: &str = "antwort:become-program";
/// The executable of this process, even if its file was replaced.
const OWN_EXECUTABLE: &str = "/proc/self/exe";
/// Exit code for a program that cannot be started, as shells use it.
const NOT_STARTED: u8 = 127;

/// Whether this process is the gateway's binary, which understands [`EXEC_ARG`], rather than an embedder's.
static IS_BINARY: AtomicBool = AtomicBool::new(false);

/// To be called first in `main`. Executes a program if the arguments say so; returns an exit code only if that fails,
/// and `None` for all other arguments.
pub fn exec_program(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    if arguments.nth(1).is_none_or(|first| first != EXEC_ARG) {
        IS_BINARY.store(true, Ordering::Release);
        return None;
    }
    let parent = arguments.next().and_then(|parent| parent.to_str()?.parse::<u32>().ok());
    let Some((parent, program)) = parent.zip(arguments.next()) else {
        return Some(ExitCode::from(NOT_STARTED));
    };
    if let Err(error) = die_with_parent(parent) {
        return Some(report_exec_error(&error));
    }
    // `exec` returns only on failure.
    Some(report_exec_error(&std::process::Command::new(program).args(arguments).exec()))
}

fn report_exec_error(error: &io::Error) -> ExitCode {
    use std::io::Write;
    // If stderr is closed, there is no one to report to.
    let _written = writeln!(io::stderr(), "cannot start the program: {error}");
    ExitCode::from(NOT_STARTED)
}

#[cfg(target_os = "linux")]
fn die_with_parent(parent: u32) -> io::Result<()> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before the signal was set.
    let now = getppid().map(|parent| parent.as_raw_nonzero().get());
    match now.and_then(|now| u32::try_from(now).ok()) == Some(parent) {
        true => Ok(()),
        false => Err(io::Error::other("the gateway has exited")),
    }
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent(_parent: u32) -> io::Result<()> {
    Ok(())
}

/// The command that starts a program, without environment, working directory and pipes.
///
/// # Errors
/// If the program does not exist.
pub(super) fn command(command: &StdioCommand) -> io::Result<Command> {
    if !cfg!(target_os = "linux") || !IS_BINARY.load(Ordering::Acquire) {
        let mut direct = Command::new(&command.program);
        direct.args(&command.args);
        return Ok(direct);
    }
    // Checked here, because an error of the intermediate process could not be reported properly.
    find(command)?;
    let mut launcher = Command::new(OWN_EXECUTABLE);
    launcher.arg(EXEC_ARG).arg(std::process::id().to_string()).arg(&command.program).args(&command.args);
    Ok(launcher)
}

/// Checks that the program exists, searching as `exec` will.
fn find(command: &StdioCommand) -> io::Result<()> {
    use secrecy::ExposeSecret;
    use std::os::unix::fs::PermissionsExt;
    let is_program = |path: std::path::PathBuf| -> io::Result<()> {
        let meta = std::fs::metadata(command.cwd.as_ref().map_or(path.clone(), |cwd| cwd.join(path)))?;
        let is_executable = meta.is_file() && meta.permissions().mode() & 0o111 != 0;
        if is_executable { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    };
    if command.program.contains('/') {
        return is_program((&command.program).into());
    }
    let configured = command.env.get("PATH").map(|path| OsString::from(path.expose_secret()));
    let path = configured.or_else(|| std::env::var_os("PATH")).unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut candidates = std::env::split_paths(&path).map(|folder| is_program(folder.join(&command.program)));
    candidates.find(Result::is_ok).unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()))
}

/// A request to the spawner thread.
struct SpawnRequest {
    command: Command,
    runtime: Handle,
    reply: SyncSender<io::Result<Child>>,
}

/// Starts a program from the spawner thread.
///
/// # Errors
/// If it cannot be started.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Option<Sender<SpawnRequest>>> = OnceLock::new();
    let gone = || io::Error::other("the thread that starts programs has exited");
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, receiver) = channel();
        let thread =
            std::thread::Builder::new().name("programs".to_owned()).spawn(move || start_all(&receiver));
        thread.is_ok().then_some(sender)
    });
    let (reply, started) = sync_channel(1);
    let start = SpawnRequest { command, runtime: Handle::current(), reply };
    spawner.as_ref().ok_or_else(gone)?.send(start).map_err(|_| gone())?;
    started.recv().map_err(|_| gone())?
}

fn start_all(receiver: &Receiver<SpawnRequest>) {
    while let Ok(SpawnRequest { mut command, runtime, reply }) = receiver.recv() {
        let _runtime = runtime.enter();
        // The receiver waits for the reply uninterruptibly, so it is there.
        let _taken = reply.send(command.spawn());
    }
}
