use tokio_stream::{Stream, StreamExt, once, pending, wrappers::UnboundedReceiverStream};
use tonic::{Status, transport::Channel};

use crate::cluster::{COUNT, Items, RM, applications, check_none, nodes, registration};
use crate::si::v1::{AllocationRequest, ApplicationRequest, NodeRequest, scheduler_client::SchedulerClient};

/// Open the three streams one after another, because messages of different streams have no order.
pub async fn run(channel: Channel, items: &mut Items, restart: bool) -> Result<(), Status> {
    let mut client = SchedulerClient::new(channel);
    client.register_resource_manager(registration()).await?;
    println!("registered");
    let request = NodeRequest { rm_id: RM.into(), nodes: nodes() };
    let mut node_responses = client.update_node(staying(request)).await?.into_inner();
    let mut accepted = 0;
    while accepted < nodes().len() {
        let response = node_responses.message().await?.ok_or_else(ended)?;
        check_none(&response.rejected);
        accepted += response.accepted.len();
    }
    let request = ApplicationRequest { rm_id: RM.into(), new: applications(), ..Default::default() };
    let mut app_responses = client.update_application(staying(request)).await?.into_inner();
    check_none(&app_responses.message().await?.ok_or_else(ended)?.rejected);

    let (stream, receiver) = tokio::sync::mpsc::unbounded_channel();
    let replaying = items.running() > 0;
    let allocations = items.all();
    let _ = stream.send(AllocationRequest { rm_id: RM.into(), allocations, ..Default::default() });
    let requests = UnboundedReceiverStream::new(receiver);
    let mut responses = client.update_allocation(requests).await?.into_inner();
    let mut confirmed = 0;
    while !items.is_empty() {
        let response = responses.message().await?.ok_or_else(ended)?;
        // The server echoes every reported allocation.
        let new = response.new.len();
        confirmed += new;
        items.note(response);
        if new > 0 && confirmed == COUNT {
            println!("{}{COUNT} allocations", if replaying { "replayed " } else { "" });
            if replaying || !restart {
                let _ = stream.send(items.releases());
            }
        }
    }
    println!("{COUNT} releases");
    Ok(())
}

/// A stream of one request that stays open.
fn staying<T>(request: T) -> impl Stream<Item = T> {
    once(request).chain(pending())
}

fn ended() -> Status {
    Status::unavailable("the server has ended the stream")
}
