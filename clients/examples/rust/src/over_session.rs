use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Status, transport::Channel};

use crate::cluster::{COUNT, Items, RM, applications, nodes, registration};
use crate::licorne::v1::{
    Goodbye, Heartbeat, Hello, ReplayBegin, ReplayEnd, UpdateRequest, session_client::SessionClient,
    update_request::Message as Request, update_response::Message as Response,
};
use crate::si::v1::{AllocationRequest, ApplicationRequest, NodeRequest};

/// Use one stream of a session, from its hello on. It never resumes a session, so it begins with a replay.
pub async fn run(channel: Channel, items: &mut Items, restart: bool, instance: u64) -> Result<(), Status> {
    let (stream, receiver) = mpsc::unbounded_channel();
    let mut requests = Requests { stream, number: 0, acknowledged: 0 };
    requests.send_as(
        0,
        Request::Hello(Hello {
            rm_id: RM.into(),
            instance,
            protocol: 1,
            registration: Some(registration()),
            ..Default::default()
        }),
    );
    let mut client = SessionClient::new(channel);
    let mut responses = client.update(UnboundedReceiverStream::new(receiver)).await?.into_inner();
    while let Some(response) = responses.message().await? {
        requests.acknowledged = requests.acknowledged.max(response.number);
        match response.message {
            Some(Response::Welcome(_)) => {
                println!("registered");
                requests.replay(items.all());
            }
            Some(Response::Heartbeat(_)) => requests.send_as(0, Request::Heartbeat(Heartbeat {})),
            Some(Response::ReplayResult(result)) if !result.complete => {
                return Err(Status::data_loss(result.reason));
            }
            Some(Response::ReplayResult(_)) if items.running() == COUNT => {
                println!("replayed {COUNT} allocations");
                requests.send(Request::Allocations(items.releases()));
            }
            Some(Response::Allocations(response)) => {
                let before = items.running();
                items.note(response);
                if before < COUNT && items.running() == COUNT {
                    println!("{COUNT} allocations");
                    if !restart {
                        requests.send(Request::Allocations(items.releases()));
                    }
                }
                if items.is_empty() {
                    println!("{COUNT} releases");
                    requests.send(Request::Goodbye(Goodbye { unregister: true, ..Default::default() }));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Numbers and sends requests.
struct Requests {
    stream: mpsc::UnboundedSender<UpdateRequest>,
    number: u64,
    acknowledged: u64,
}

impl Requests {
    fn send(&mut self, message: Request) {
        self.number += 1;
        self.send_as(self.number, message);
    }

    fn send_as(&self, number: u64, message: Request) {
        let (acknowledged, message) = (self.acknowledged, Some(message));
        // It fails only if the stream has ended; the reader has the reason.
        let _ = self.stream.send(UpdateRequest { number, acknowledged, message });
    }

    /// Send all items, between a begin and an end.
    fn replay(&mut self, allocations: Vec<crate::si::v1::Allocation>) {
        let (nodes, new) = (nodes(), applications());
        let end = ReplayEnd {
            nodes: nodes.len() as u32,
            applications: new.len() as u32,
            allocations: allocations.len() as u32,
        };
        self.send(Request::ReplayBegin(ReplayBegin {}));
        self.send(Request::Nodes(NodeRequest { nodes, ..Default::default() }));
        self.send(Request::Applications(ApplicationRequest { new, ..Default::default() }));
        self.send(Request::Allocations(AllocationRequest { allocations, ..Default::default() }));
        self.send(Request::ReplayEnd(end));
    }
}
