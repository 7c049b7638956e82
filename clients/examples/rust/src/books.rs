//! What this resource manager has, and what it does next, whatever carries its messages.

use std::collections::BTreeMap;

use crate::si::v1::{
    AddApplicationRequest, Allocation, AllocationRelease, AllocationResponse, NodeInfo, Quantity,
    Resource, TerminationType, UserGroupInformation, node_info::ActionFromRm,
};

pub const RM: &str = "example-rust";
pub const QUEUES: &str = r#"partitions: [{name: default, queues: [{name: root, submitacl: "*", queues: [{name: examples}]}]}]"#;
const COUNT: usize = 1000;

#[derive(PartialEq)]
enum Phase {
    Asking,
    Waiting,
    Releasing,
    Over,
}

pub struct Books {
    /// An ask has no node, and an allocation that runs has one. So this is all that a replay needs.
    items: BTreeMap<String, Allocation>,
    restart: bool,
    phase: Phase,
}

impl Books {
    /// With `restart` nothing is released before it was replayed.
    pub fn new(restart: bool) -> Self {
        let ask = |i| Allocation {
            allocation_key: format!("k{i}"),
            application_id: "a1".into(),
            resource_per_alloc: Some(vcore(1000)),
            ..Default::default()
        };
        let items = (0..COUNT)
            .map(ask)
            .map(|one| (one.allocation_key.clone(), one))
            .collect();
        Self {
            items,
            restart,
            phase: Phase::Asking,
        }
    }

    pub fn all(&self) -> Vec<Allocation> {
        self.items.values().cloned().collect()
    }

    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    pub fn running(&self) -> usize {
        self.items
            .values()
            .filter(|one| !one.node_id.is_empty())
            .count()
    }

    /// Notes what the server says; returns what to release then, which mostly is nothing.
    pub fn note(&mut self, response: AllocationResponse) -> Vec<AllocationRelease> {
        for one in response.new {
            self.items.insert(one.allocation_key.clone(), one);
        }
        for one in response.released {
            self.items.remove(&one.allocation_key);
        }
        if self.phase == Phase::Asking && self.running() == COUNT {
            println!("{COUNT} allocations");
            self.phase = Phase::Waiting;
            if !self.restart {
                return self.release();
            }
        }
        if self.phase == Phase::Releasing && self.items.is_empty() {
            println!("{COUNT} releases");
            self.phase = Phase::Over;
        }
        Vec::new()
    }

    /// The server knows all of it again; returns what to release then.
    pub fn replayed(&mut self) -> Vec<AllocationRelease> {
        if self.phase != Phase::Waiting {
            return Vec::new();
        }
        println!("replayed {} allocations", self.running());
        self.release()
    }

    fn release(&mut self) -> Vec<AllocationRelease> {
        self.phase = Phase::Releasing;
        let release = |key: &String| AllocationRelease {
            allocation_key: key.clone(),
            application_id: "a1".into(),
            termination_type: TerminationType::StoppedByRm.into(),
            ..Default::default()
        };
        self.items.keys().map(release).collect()
    }
}

pub fn nodes() -> Vec<NodeInfo> {
    let node = |i| NodeInfo {
        node_id: format!("n{i}"),
        action: ActionFromRm::Create.into(),
        schedulable_resource: Some(vcore(100_000)),
        ..Default::default()
    };
    (0..10).map(node).collect()
}

pub fn applications() -> Vec<AddApplicationRequest> {
    vec![AddApplicationRequest {
        application_id: "a1".into(),
        queue_name: "root.examples".into(),
        ugi: Some(UserGroupInformation {
            user: "ann".into(),
            ..Default::default()
        }),
        ..Default::default()
    }]
}

fn vcore(value: i64) -> Resource {
    Resource {
        resources: [("vcore".to_string(), Quantity { value })].into(),
    }
}
