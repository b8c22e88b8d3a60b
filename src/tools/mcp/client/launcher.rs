//! Programs end with the gateway, however that ends: also when it is killed and can end nothing itself.
//!
//! Linux signals a process when its parent is gone, if the process itself has asked for that. No program does, so it
//! is started by way of the gateway's own binary, which asks and then becomes the program. The parent is the thread
//! that started it: so all are started by one thread, which lasts as long as the gateway.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use tokio::process::{Child, Command};
use tokio::runtime::Handle;

use crate::tools::mcp::connection::StdioCommand;

/// The first argument by which the binary is asked to become a program; the process id of the gateway, the program
/// and its arguments follow.
const BECOME_PROGRAM_ARG: &str = "antwort:become-program";
/// The executable of this process, also once its file was replaced.
const OWN_EXECUTABLE: &str = "/proc/self/exe";
/// Exit code of a shell whose program cannot be started.
const NOT_STARTED: u8 = 127;

/// Whether this process is the gateway's own binary: only that understands [`BECOME_PROGRAM_ARG`].
static IS_BINARY: AtomicBool = AtomicBool::new(false);

/// To be called by the binary first of all. Becomes a program if that is what the arguments ask for; comes back with an
/// exit code only if it cannot, and with none if the arguments mean something else.
pub(crate) fn become_program(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    if arguments.nth(1).is_none_or(|first| first != BECOME_PROGRAM_ARG) {
        IS_BINARY.store(true, Ordering::Release);
        return None;
    }
    let parent = arguments.next().and_then(|parent| parent.to_str()?.parse::<u32>().ok());
    let Some((parent, program)) = parent.zip(arguments.next()) else {
        return Some(ExitCode::from(NOT_STARTED));
    };
    if let Err(error) = end_with(parent) {
        return Some(report_exec_error(&error));
    }
    // Comes back only if it could not be started.
    Some(report_exec_error(&std::process::Command::new(program).args(arguments).exec()))
}

fn report_exec_error(error: &io::Error) -> ExitCode {
    use std::io::Write;
    // Nobody is left to be told that this failed.
    let _written = writeln!(io::stderr(), "the program does not start: {error}");
    ExitCode::from(NOT_STARTED)
}

#[cfg(target_os = "linux")]
fn end_with(parent: u32) -> io::Result<()> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before it was asked for.
    let now = getppid().map(|parent| parent.as_raw_nonzero().get());
    match now.and_then(|now| u32::try_from(now).ok()) == Some(parent) {
        true => Ok(()),
        false => Err(io::Error::other("the gateway is gone")),
    }
}

#[cfg(not(target_os = "linux"))]
fn end_with(_parent: u32) -> io::Result<()> {
    Ok(())
}

/// What starts a program, apart from its environment, folder and pipes.
///
/// # Errors
/// If there is no such program.
pub(super) fn command(command: &StdioCommand) -> io::Result<Command> {
    if !cfg!(target_os = "linux") || !IS_BINARY.load(Ordering::Acquire) {
        let mut direct = Command::new(&command.program);
        direct.args(&command.args);
        return Ok(direct);
    }
    // Whatever is wrong with it would else be known only to the process that is to become it.
    find(command)?;
    let mut by_way = Command::new(OWN_EXECUTABLE);
    by_way
        .arg(BECOME_PROGRAM_ARG)
        .arg(std::process::id().to_string())
        .arg(&command.program)
        .args(&command.args);
    Ok(by_way)
}

/// Whether there is such a program, where it will be looked for.
fn find(command: &StdioCommand) -> io::Result<()> {
    use secrecy::ExposeSecret;
    use std::os::unix::fs::PermissionsExt;
    let is_program = |path: std::path::PathBuf| -> io::Result<()> {
        let meta = std::fs::metadata(command.cwd.as_ref().map_or(path.clone(), |cwd| cwd.join(path)))?;
        let may_run = meta.is_file() && meta.permissions().mode() & 0o111 != 0;
        if may_run { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    };
    if command.program.contains('/') {
        return is_program((&command.program).into());
    }
    let given = command.env.get("PATH").map(|path| OsString::from(path.expose_secret()));
    let path = given.or_else(|| std::env::var_os("PATH")).unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut all = std::env::split_paths(&path).map(|folder| is_program(folder.join(&command.program)));
    all.find(Result::is_ok).unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()))
}

/// A program to be started.
struct Start {
    command: Command,
    runtime: Handle,
    reply: SyncSender<io::Result<Child>>,
}

/// Starts a program from the thread that lasts.
///
/// # Errors
/// If it cannot be started.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    static STARTER: OnceLock<Option<Sender<Start>>> = OnceLock::new();
    let gone = || io::Error::other("the thread that starts programs has ended");
    let starter = STARTER.get_or_init(|| {
        let (sender, receiver) = channel();
        let thread =
            std::thread::Builder::new().name("programs".to_owned()).spawn(move || start_all(&receiver));
        thread.is_ok().then_some(sender)
    });
    let (reply, started) = sync_channel(1);
    let start = Start { command, runtime: Handle::current(), reply };
    starter.as_ref().ok_or_else(gone)?.send(start).map_err(|_| gone())?;
    started.recv().map_err(|_| gone())?
}

fn start_all(receiver: &Receiver<Start>) {
    while let Ok(Start { mut command, runtime, reply }) = receiver.recv() {
        let _runtime = runtime.enter();
        // Whoever waits for it waits without being interrupted.
        let _taken = reply.send(command.spawn());
    }
}
