//! Reloads: on SIGHUP, and with `config.watch` when a file has changed, the settings are read again and applied whole, or
//! not at all.

use std::sync::Arc;

use anyhow::Context;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::assembly::Assembly;
use super::file_watcher::FileWatcher;
use super::generation::{self, CurrentGeneration, Generation};
use crate::config::{ConfigChange, ConfigErrors, ConfigFiles, ReloadEffect, ReloadedConfig, RunningConfig};
use crate::telemetry;
use crate::transport::ShutdownFlag;

/// SIGHUP, listened for from when this is made: until it is, the signal ends the process.
pub struct SighupListener(#[cfg(unix)] tokio::signal::unix::Signal);

impl SighupListener {
    /// Listens from now on, within a runtime. One that arrives before it is waited for, such as while the settings are
    /// read at the start, is not lost: it leads to a reload after the start.
    ///
    /// # Errors
    /// If the system does not let the process listen.
    pub fn listen() -> std::io::Result<Self> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            signal(SignalKind::hangup()).map(Self)
        }
        #[cfg(not(unix))]
        Ok(Self())
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        #[cfg(unix)]
        if self.0.recv().await.is_some() {
            return;
        }
        std::future::pending::<()>().await;
    }
}

/// What reloads, and what is in force.
pub(super) struct Reloader {
    pub running: Arc<RunningConfig>,
    pub assembly: Assembly,
    pub current: CurrentGeneration,
    pub stopping: ShutdownFlag,
    pub tasks: TaskTracker,
    pub closing: CancellationToken,
}

/// Why nothing was applied.
enum ReloadError {
    Settings(ConfigErrors),
    /// With the section or key in its words.
    Parts(anyhow::Error),
}

impl Reloader {
    /// Reloads whenever it is told to, until `shutdown`.
    pub(super) async fn run(mut self, mut hangups: SighupListener, shutdown: CancellationToken) {
        let mut watch = FileWatcher::new(self.running.files().clone());
        loop {
            let trigger = tokio::select! {
                () = hangups.next() => "SIGHUP",
                () = watch.changed(), if self.running.settings().config.watch => "config.watch",
                () = shutdown.cancelled() => return,
            };
            // A file system that does not answer keeps nobody from stopping.
            tokio::select! {
                files = self.reload(trigger) => watch.read(files),
                () = shutdown.cancelled() => return,
            }
        }
    }

    /// The files to watch from now on, as they were when they were read, or before that was tried in vain.
    async fn reload(&mut self, trigger: &'static str) -> ConfigFiles {
        let (looked_at, applied) = self.apply().await;
        let succeeded = applied.is_ok();
        self.assembly.metrics.config_reloaded(succeeded);
        match applied {
            Ok(changes) => {
                let of = |effect| move |change: &&ConfigChange| change.effect == effect;
                let keys: Vec<_> =
                    changes.iter().filter(of(ReloadEffect::Reload)).map(|change| &*change.key).collect();
                tracing::info!(trigger, keys = keys.join(", "), "the configuration was reloaded");
                for change in changes.iter().filter(of(ReloadEffect::Restart)) {
                    tracing::warn!(key = change.key, "needs a restart, and stays as it was");
                }
            }
            Err(ReloadError::Settings(errors)) => {
                for error in errors.iter() {
                    tracing::error!(trigger, key = error.path, %error, "{FAILED}");
                }
            }
            Err(ReloadError::Parts(error)) => {
                tracing::error!(trigger, error = format!("{error:#}"), "{FAILED}");
            }
        }
        if succeeded { self.running.files().clone() } else { looked_at }
    }

    async fn apply(&mut self) -> (ConfigFiles, Result<Vec<ConfigChange>, ReloadError>) {
        let running = Arc::clone(&self.running);
        match tokio::task::spawn_blocking(move || running.reload()).await.context("reading the settings") {
            Ok((looked_at, Ok(reloaded))) => (looked_at, self.take_over(reloaded).await),
            Ok((looked_at, Err(errors))) => (looked_at, Err(ReloadError::Settings(errors))),
            Err(error) => (self.running.files().refreshed(), Err(ReloadError::Parts(error))),
        }
    }

    async fn take_over(&mut self, reloaded: ReloadedConfig) -> Result<Vec<ConfigChange>, ReloadError> {
        let settings = reloaded.running.settings();
        let next = self.assembly.rebuild(settings, &reloaded.changes).await.map_err(ReloadError::Parts)?;
        // Nothing fails from here on.
        telemetry::set_filter(&settings.log.filter);
        next.engine.admission().resize(settings, &next.metrics);
        next.share_store(settings);
        next.tools.mcp.sessions().resize(&settings.mcp.sessions);
        if !Arc::ptr_eq(&next.tools.toolbox, &self.assembly.tools.toolbox) {
            generation::spawn_tool_cleanup(&next.tools, &self.tasks, self.closing.clone());
        }
        self.current.store(Arc::new(Generation::new(settings, &next, &self.stopping)));
        self.assembly = next;
        self.running = Arc::new(reloaded.running);
        Ok(reloaded.changes)
    }
}

/// Of every failure.
const FAILED: &str = "the configuration was not reloaded, and stays as it was";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use arc_swap::ArcSwap;

    use super::*;
    use crate::app::assembly::{StoreUser, open_store};
    use crate::app::tools::ExtraTools;
    use crate::config::{LoadOptions, load};

    #[tokio::test]
    async fn twenty_reloads_leave_one_task_for_the_tools_that_are_in_force() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("antwort.yaml");
        let write = |turn: usize| {
            let text = format!(
                "{{store: {{url: 'memory:'}}, providers: {{a: {{url: 'http://127.0.0.1:1/v1'}}}}, tools: {{max_parallel: {turn}}}}}"
            );
            std::fs::write(&file, text).unwrap();
        };
        write(1);
        let options = LoadOptions { file: Some(file.clone()), ..LoadOptions::default() };
        let loaded = load(&options).unwrap();
        let store = open_store(&loaded.settings, StoreUser::Command).unwrap();
        let assembly =
            Assembly::build_with_store(&loaded.settings, ExtraTools::default(), store).await.unwrap();
        let (tasks, closing, stopping) =
            (TaskTracker::new(), CancellationToken::new(), ShutdownFlag::default());
        generation::spawn_tool_cleanup(&assembly.tools, &tasks, closing.clone());
        let generation = Generation::new(&loaded.settings, &assembly, &stopping);
        let mut reloader = Reloader {
            running: Arc::new(RunningConfig::new(options, loaded)),
            assembly,
            current: Arc::new(ArcSwap::from_pointee(generation)),
            stopping,
            tasks: tasks.clone(),
            closing: closing.clone(),
        };
        let request = Arc::clone(&reloader.assembly.engine);
        for turn in 2..22 {
            write(turn);
            reloader.reload("test").await;
            assert_eq!(reloader.running.settings().tools.max_parallel, turn);
        }
        let becomes = async |count: usize| {
            let same = async || {
                while tasks.len() != count {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(Duration::from_secs(30), same()).await.is_ok()
        };
        assert!(becomes(2).await, "{} tasks: one for the tools of a request that goes on", tasks.len());
        drop(request);
        assert!(becomes(1).await, "{} tasks", tasks.len());
        closing.cancel();
        tasks.close();
        tasks.wait().await;
    }
}
