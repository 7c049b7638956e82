//! The items of this resource manager: ten nodes, one application, and a thousand asks.

use std::collections::BTreeMap;

use crate::si::v1::{
    AddApplicationRequest, Allocation, AllocationRelease, AllocationReleasesRequest, AllocationRequest,
    AllocationResponse, NodeInfo, Quantity, RegisterResourceManagerRequest, Resource, TerminationType,
    UserGroupInformation, node_info::ActionFromRm,
};

pub const RM: &str = "example-rust";
pub const COUNT: usize = 1000;
const QUEUES: &str =
    r#"partitions: [{name: default, queues: [{name: root, submitacl: "*", queues: [{name: examples}]}]}]"#;

pub fn registration() -> RegisterResourceManagerRequest {
    RegisterResourceManagerRequest { rm_id: RM.into(), config: QUEUES.into(), ..Default::default() }
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
    let user = "ann".into();
    vec![AddApplicationRequest {
        application_id: "a1".into(),
        queue_name: "root.examples".into(),
        ugi: Some(UserGroupInformation { user, groups: vec![] }),
        ..Default::default()
    }]
}

/// A rejection is permanent, so it ends the program.
pub fn check_none<T: std::fmt::Debug>(rejected: &[T]) {
    assert!(rejected.is_empty(), "rejected: {rejected:?}");
}

fn vcore(value: i64) -> Resource {
    let resources = [("vcore".to_string(), Quantity { value })].into();
    Resource { resources }
}

/// The asks and allocations by key. An allocation has a node, an ask does not. A replay needs nothing
/// else.
pub struct Items(BTreeMap<String, Allocation>);

impl Items {
    pub fn asks() -> Self {
        let ask = |key: String| Allocation {
            allocation_key: key,
            application_id: "a1".into(),
            resource_per_alloc: Some(vcore(1000)),
            ..Default::default()
        };
        let keys = (0..COUNT).map(|i| format!("k{i}"));
        Self(keys.map(|key| (key.clone(), ask(key))).collect())
    }

    pub fn all(&self) -> Vec<Allocation> {
        self.0.values().cloned().collect()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn running(&self) -> usize {
        let all = self.0.values();
        all.filter(|one| !one.node_id.is_empty()).count()
    }

    pub fn note(&mut self, response: AllocationResponse) {
        check_none(&response.rejected_allocations);
        for one in response.new {
            self.0.insert(one.allocation_key.clone(), one);
        }
        for one in response.released {
            self.0.remove(&one.allocation_key);
        }
    }

    pub fn releases(&self) -> AllocationRequest {
        let release = |key: &String| AllocationRelease {
            allocation_key: key.clone(),
            application_id: "a1".into(),
            termination_type: TerminationType::StoppedByRm.into(),
            ..Default::default()
        };
        let allocations_to_release = self.0.keys().map(release).collect();
        AllocationRequest {
            rm_id: RM.into(),
            releases: Some(AllocationReleasesRequest { allocations_to_release, ..Default::default() }),
            ..Default::default()
        }
    }
}
