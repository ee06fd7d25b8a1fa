//! Containers as far as flock reads them, in manifests and from API servers: their images, and which
//! named ports a pod has. What cannot be a named port is none; nothing here is an error, because one
//! port that cannot be read would hide its pod.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::policy::{NamedPort, Protocol};

/// One container.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Container {
    /// As written.
    pub(super) image: Option<String>,
    /// Of an init container: `Always` makes it one that runs beside the others.
    restart_policy: Value,
    ports: Value,
}

/// The named ports of a pod, in the order in which they are written. Of one name and protocol the
/// first counts, as for Services.
pub(super) fn named(containers: &[Container], init: &[Container]) -> Vec<NamedPort> {
    let stays = |container: &&Container| container.restart_policy == "Always";
    let all = containers.iter().chain(init.iter().filter(stays));
    let ports = all.filter_map(|container| container.ports.as_array()).flatten();
    let mut found: Vec<NamedPort> = Vec::new();
    for port in ports.filter_map(read) {
        let same = |known: &NamedPort| known.name == port.name && known.protocol == port.protocol;
        if !found.iter().any(same) {
            found.push(port);
        }
    }
    found
}

fn read(port: &Value) -> Option<NamedPort> {
    let name = port.get("name")?.as_str().filter(|name| !name.is_empty())?;
    let number = port.get("containerPort")?.as_u64()?;
    let number = u16::try_from(number).ok().filter(|number| *number != 0)?;
    let protocol = match port.get("protocol") {
        None | Some(Value::Null) => Protocol::Tcp,
        Some(said) => Protocol::deserialize(said).ok()?,
    };
    Some(NamedPort { name: name.into(), protocol, port: number })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(containers: Value, init: Value) -> Vec<String> {
        let read = |value| serde_json::from_value::<Vec<Container>>(value).unwrap();
        let ports = named(&read(containers), &read(init));
        ports.iter().map(|port| format!("{} {} {}", port.name, port.protocol, port.port)).collect()
    }

    #[test]
    fn ports_of_all_containers_that_run_for_as_long_as_the_pod() {
        let port = |name: &str, number: u16| json!([{"name": name, "containerPort": number}]);
        let containers = json!([
            {"image": "a", "ports": [
                {"name": "web", "containerPort": 8080},
                {"name": "dns", "containerPort": 53, "protocol": "UDP"},
                {"name": "dns", "containerPort": 53, "protocol": "TCP"},
                {"containerPort": 1},
            ]},
            {"image": "b"},
            {"image": "c", "ports": null},
            {"image": "d", "ports": port("web", 9)},
        ]);
        let init = json!([
            {"ports": port("early", 1)},
            {"restartPolicy": "Always", "ports": port("side", 2)},
            {"restartPolicy": "Never", "ports": port("never", 3)},
        ]);
        assert_eq!(
            of(containers, init),
            ["web TCP 8080", "dns UDP 53", "dns TCP 53", "side TCP 2"]
        );
    }

    #[test]
    fn what_cannot_be_a_named_port_is_none() {
        let bad = json!([
            {"ports": "x"},
            {"ports": ["x", 1, null, {}]},
            {"ports": [{"name": 80, "containerPort": 80}, {"name": "", "containerPort": 80}]},
            {"ports": [{"name": "a", "containerPort": 0}, {"name": "a", "containerPort": 65536}]},
            {"ports": [{"name": "a", "containerPort": "80"}, {"name": "a", "containerPort": -1}]},
            {"ports": [{"name": "a", "containerPort": 80, "protocol": "ICMP"}, {"name": "a"}]},
            {"restartPolicy": 7, "ports": [{"name": "good", "containerPort": 1, "protocol": null}]},
        ]);
        assert_eq!(of(bad, json!([])), ["good TCP 1"]);
    }
}
