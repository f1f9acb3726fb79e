//! Several hosts: the coordinator's side, and workers that are started by hand.

use super::args::{HostArgs, WorkerArgs};
use super::interrupt;
use crate::cluster::Cluster;
use crate::runtime::device::messages::{WorkerId, WorkerName};
use crate::runtime::device::{DeviceError, LOOPBACK, SECRET_VARIABLE, Secret, run_worker};
use crate::training::{COORDINATOR_VARIABLE, Elsewhere, WORKER_VARIABLE};
use anyhow::anyhow;
use std::collections::BTreeSet;
use std::net::ToSocketAddrs;
use std::path::Path;
use std::str::FromStr;

impl HostArgs {
    /// Which nodes are elsewhere. They are nodes of `cluster`, unless more come with a trace.
    pub(super) fn resolve(&self, cluster: &Cluster, has_trace: bool) -> anyhow::Result<Elsewhere> {
        let (Some(hosts), Some(secret)) = (&self.hosts, &self.secret_file) else { return Ok(Elsewhere::default()) };
        let listen = self.listen.unwrap_or(LOOPBACK);
        if listen.ip().is_unspecified() {
            return Err(anyhow!(
                "`--listen` is `{listen}`, which no other host can reach by that name\nhint: give the address of an interface"
            ));
        }
        let text = crate::input::read_text(hosts)
            .map_err(|error| anyhow!("cannot read `{}`: {error}\nhint: check the path", hosts.display()))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let nodes: BTreeSet<String> = lines.map(str::to_owned).collect();
        if nodes.is_empty() {
            return Err(anyhow!("`{}` names no node\nhint: write the name of a node on each line", hosts.display()));
        }
        if let Some(unknown) = nodes.iter().find(|node| !has_trace && cluster.find(node).is_none()) {
            let known: Vec<&str> = cluster.nodes.iter().map(|node| node.name.as_str()).collect();
            let hint = crate::suggest::hint(unknown, known.iter().copied());
            return Err(anyhow!(
                "`{}` names node `{unknown}`, which the plan doesn't have\nhint: {hint}",
                hosts.display()
            ));
        }
        Ok(Elsewhere { nodes, listen, secret: Some(read_secret(secret)?) })
    }
}

/// Serves as a worker until there is no more to do.
pub(super) fn serve(args: &WorkerArgs) -> anyhow::Result<()> {
    let (Some(coordinator), Some(node), Some(secret)) = (&args.coordinator, &args.node, &args.secret_file) else {
        interrupt::leave_to_coordinator();
        return Ok(serve_as_told()?);
    };
    let secret = read_secret(secret)?;
    let address = coordinator.to_socket_addrs().ok().and_then(|mut addresses| addresses.next()).ok_or_else(|| {
        anyhow!("`--coordinator` is `{coordinator}`, which isn't an address\nhint: give host and port, such as `10.0.0.1:7070`")
    })?;
    let who = WorkerName::Place { node: node.clone(), gpu: args.gpu };
    Ok(run_worker(address, &secret, who)?)
}

/// As the environment says.
fn serve_as_told() -> Result<(), DeviceError> {
    let secret = Secret::from_hex(&variable::<String>(SECRET_VARIABLE)?);
    let secret = secret.ok_or(DeviceError::Environment { variable: SECRET_VARIABLE })?;
    run_worker(variable(COORDINATOR_VARIABLE)?, &secret, WorkerName::Given(WorkerId(variable(WORKER_VARIABLE)?)))
}

fn variable<T: FromStr>(variable: &'static str) -> Result<T, DeviceError> {
    let found = std::env::var(variable).ok().and_then(|value| value.parse().ok());
    found.ok_or(DeviceError::Environment { variable })
}

fn read_secret(path: &Path) -> anyhow::Result<Secret> {
    let shown = path.display();
    let text = crate::input::read_text(path)
        .map_err(|error| anyhow!("cannot read `{shown}`: {error}\nhint: check the path"))?;
    if is_open_to_others(path) {
        return Err(anyhow!("others may read the secret in `{shown}`\nhint: `chmod 600 {shown}`"));
    }
    let secret = Secret::from_hex(text.trim());
    secret.ok_or_else(|| {
        anyhow!("`{shown}` isn't a secret of 64 hexadecimal digits\nhint: `openssl rand -hex 32 > {shown}`")
    })
}

#[cfg(unix)]
fn is_open_to_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn is_open_to_others(_: &Path) -> bool {
    false
}
