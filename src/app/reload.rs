//! Configuration reloads: on SIGHUP, and with `config.watch` on file changes. A reload is applied as a whole or not at all.

use std::sync::Arc;

use anyhow::Context;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::admission_limits::admission_limits;
use super::assembly::Assembly;
use super::file_watcher::FileWatcher;
use super::generation::{self, CurrentGeneration, Generation};
use crate::transport::ShutdownFlag;
use antwort_config::{ConfigChange, ConfigErrors, ConfigFiles, ReloadEffect, ReloadedConfig, RunningConfig};
use antwort_telemetry as telemetry;

/// A listener for SIGHUP. Until one is created, the signal ends the process.
pub struct SighupListener(#[cfg(unix)] tokio::signal::unix::Signal);

impl SighupListener {
    /// Installs the signal handler; must be called within a runtime. A signal that arrives before [`Self::next`] is called,
    /// for example during startup, is not lost: it causes a reload after startup.
    ///
    /// # Errors
    /// If the signal handler cannot be installed.
    pub fn listen() -> std::io::Result<Self> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            signal(SignalKind::hangup()).map(Self)
        }
        #[cfg(not(unix))]
        Ok(Self())
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        #[cfg(unix)]
        if self.0.recv().await.is_some() {
            return;
        }
        std::future::pending::<()>().await;
    }
}

/// Performs reloads; holds the configuration and the components in force.
pub(super) struct Reloader {
    pub running: Arc<RunningConfig>,
    pub assembly: Assembly,
    pub current: CurrentGeneration,
    pub stopping: ShutdownFlag,
    pub tasks: TaskTracker,
    pub closing: CancellationToken,
}

/// Why a reload was not applied.
enum ReloadError {
    Settings(ConfigErrors),
    /// A component could not be built; the message names its section or key.
    Parts(anyhow::Error),
}

impl Reloader {
    /// Reloads on every trigger, until `shutdown`.
    pub(super) async fn run(mut self, mut hangups: SighupListener, shutdown: CancellationToken) {
        let mut watch = FileWatcher::new(self.running.files().clone());
        loop {
            let trigger = tokio::select! {
                () = hangups.next() => "SIGHUP",
                () = watch.changed(), if self.running.settings().config.watch => "config.watch",
                () = shutdown.cancelled() => return,
            };
            // A file system that hangs must not delay shutdown.
            tokio::select! {
                files = self.reload(trigger) => watch.set_baseline(files),
                () = shutdown.cancelled() => return,
            }
        }
    }

    /// Returns the new baseline of the watched files: their state when they were read, also if the reload failed.
    async fn reload(&mut self, trigger: &'static str) -> ConfigFiles {
        let (files_seen, applied) = self.apply().await;
        let succeeded = applied.is_ok();
        self.assembly.metrics.config_reloaded(succeeded);
        match applied {
            Ok(changes) => {
                let has_effect = |effect| move |change: &&ConfigChange| change.effect == effect;
                let keys: Vec<_> = changes
                    .iter()
                    .filter(has_effect(ReloadEffect::Reload))
                    .map(|change| &*change.key)
                    .collect();
                tracing::info!(trigger, keys = keys.join(", "), "configuration reloaded");
                for warning in self.running.warnings() {
                    tracing::warn!("{warning}");
                }
                for change in changes.iter().filter(has_effect(ReloadEffect::Restart)) {
                    tracing::warn!(
                        key = change.key,
                        "setting changed, but needs a restart; the old value stays in force"
                    );
                }
            }
            Err(ReloadError::Settings(errors)) => {
                for error in errors.iter() {
                    tracing::error!(trigger, key = error.path, %error, "{RELOAD_FAILED}");
                }
            }
            Err(ReloadError::Parts(error)) => {
                tracing::error!(trigger, error = format!("{error:#}"), "{RELOAD_FAILED}");
            }
        }
        if succeeded { self.running.files().clone() } else { files_seen }
    }

    async fn apply(&mut self) -> (ConfigFiles, Result<Vec<ConfigChange>, ReloadError>) {
        let running = Arc::clone(&self.running);
        match tokio::task::spawn_blocking(move || running.reload()).await.context("reading the settings") {
            Ok((files_seen, Ok(reloaded))) => (files_seen, self.activate(reloaded).await),
            Ok((files_seen, Err(errors))) => (files_seen, Err(ReloadError::Settings(errors))),
            Err(error) => (self.running.files().refreshed(), Err(ReloadError::Parts(error))),
        }
    }

    async fn activate(&mut self, reloaded: ReloadedConfig) -> Result<Vec<ConfigChange>, ReloadError> {
        let settings = reloaded.running.settings();
        let next = self.assembly.rebuild(settings, &reloaded.changes).await.map_err(ReloadError::Parts)?;
        // Nothing fails from here on.
        telemetry::set_filter(&settings.log.filter);
        let admission = next.admission();
        admission.resize(&admission_limits(settings, admission.max_connections()), &next.metrics);
        next.set_store_requesters(settings);
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

const RELOAD_FAILED: &str = "configuration reload failed; the old configuration stays in force";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use arc_swap::ArcSwap;

    use super::*;
    use crate::app::open_store::{StoreUser, open_store};
    use crate::app::tools::ExtraTools;
    use antwort_config::{LoadOptions, load};

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
        let store = open_store(&loaded.settings, StoreUser::Command).await.unwrap();
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
