//! Limits of runs, requests and connections that could not be meant.

use super::assert_each_refused;

#[test]
fn server_limits_that_stop_everything_or_limit_nothing_are_refused() {
    assert_each_refused(&[
        ("server: {max_runs: 0}", "server.max_runs: must be more"),
        ("server: {queue_timeout: 0s}", "server.queue_timeout: must be more"),
        ("server: {body_idle_timeout: 0s}", "server.body_idle_timeout: must be more"),
        ("server: {request_body_limit: 250MiB}", "server.request_body_limit: is more than seven eighths of"),
        (
            "server: {max_runs: 2, max_runs_per_tenant: 3}",
            "server.max_runs_per_tenant: is more than server.max_runs",
        ),
        ("auth: {keys: {a: {key: k, max_runs: 0}}}", "auth.keys.a.max_runs: must be more"),
        ("auth: {keys: {a: {key: k, max_runs: 2000}}}", "auth.keys.a.max_runs: is more than server.max_runs"),
        ("server: {shutdown_delay: soon}", "server.shutdown_delay: "),
        ("server: {max_connections: 0}", "server.max_connections: must be more"),
        ("server: {max_connections: many}", "server.max_connections: "),
        ("server: {first_byte_timeout: 0s}", "server.first_byte_timeout: must be more"),
        ("server: {header_timeout: 0s}", "server.header_timeout: must be more"),
        ("server: {keep_alive_timeout: 0s}", "server.keep_alive_timeout: must be more"),
        (
            "server: {cors: {allowed_origins: ['https://a.example/']}}",
            "server.cors.allowed_origins[0]: expected an origin",
        ),
        (
            "server: {cors: {allowed_origins: ['app://x/']}}",
            "server.cors.allowed_origins[0]: expected an origin",
        ),
        ("server: {cors: {allowed_origins: ['null']}}", "server.cors.allowed_origins[0]: expected an origin"),
        ("server: {allowed_hosts: [ok, 'antwort:8080']}", "server.allowed_hosts[1]: expected a host name"),
        ("server: {allowed_hosts: ['http://antwort']}", "server.allowed_hosts[0]: expected a host name"),
    ]);
}

#[test]
fn shares_of_background_runs_that_limit_nothing_or_all_are_refused() {
    assert_each_refused(&[
        (
            "jobs: {concurrency: 2, max_runs_per_tenant: 3}",
            "jobs.max_runs_per_tenant: is more than jobs.concurrency",
        ),
        ("jobs: {max_runs_per_tenant: 0}", "jobs.max_runs_per_tenant: must be more"),
    ]);
}
