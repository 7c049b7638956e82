// The example RM in C++: over the three streams of si.v1, on bare stubs, which `make example-cpp` generates.
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <thread>

#include "licorne/si/v1/si.grpc.pb.h"

namespace v1 = si::v1;
const std::string RM = "example-cpp";
const int COUNT = 1000, NODES = 10;
const char* QUEUES = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: examples}]}]}]";

// The asks and allocations by key. An allocation has a node, an ask does not. A replay needs nothing else.
std::map<std::string, v1::Allocation> items;

void vcore(v1::Resource* size, int64_t value) { (*size->mutable_resources())["vcore"].set_value(value); }

template <class Rejected> void check(const Rejected& rejected) {
  if (rejected.empty()) return;
  std::cerr << "rejected: " << rejected.Get(0).reason() << std::endl;
  std::exit(1);
}

// Opens the three streams and sends all items; returns true once all are released. The streams are opened one
// after another, because messages of different streams have no order.
bool play(v1::Scheduler::Stub& stub, bool restart) {
  grpc::ClientContext once, of_nodes, of_apps, of_allocations;
  v1::RegisterResourceManagerRequest hello;
  v1::RegisterResourceManagerResponse welcome;
  hello.set_rmid(RM), hello.set_config(QUEUES);
  if (!stub.RegisterResourceManager(&once, hello, &welcome).ok()) return false;
  std::cout << "registered" << std::endl;
  auto node_stream = stub.UpdateNode(&of_nodes);
  v1::NodeRequest nodes;
  nodes.set_rmid(RM);
  for (int i = 0; i < NODES; i++) {
    auto* node = nodes.add_nodes();
    node->set_nodeid("n" + std::to_string(i)), node->set_action(v1::NodeInfo::CREATE);
    vcore(node->mutable_schedulableresource(), 100'000);
  }
  node_stream->Write(nodes);
  v1::NodeResponse of_node;
  for (int accepted = 0; accepted < NODES; accepted += of_node.accepted_size()) {
    if (!node_stream->Read(&of_node)) return false;
    check(of_node.rejected());
  }
  auto app_stream = stub.UpdateApplication(&of_apps);
  v1::ApplicationRequest apps;
  apps.set_rmid(RM);
  auto* app = apps.add_new_();  // `new` is reserved in C++, so the accessors of this field end in `_`
  app->set_applicationid("a1"), app->set_queuename("root.examples"), app->mutable_ugi()->set_user("ann");
  v1::ApplicationResponse verdict;
  if (!app_stream->Write(apps) || !app_stream->Read(&verdict)) return false;
  check(verdict.rejected());

  auto stream = stub.UpdateAllocation(&of_allocations);
  bool running = !items.begin()->second.nodeid().empty();
  v1::AllocationRequest asks, releases;
  asks.set_rmid(RM), releases.set_rmid(RM);
  for (auto& [key, item] : items) *asks.add_allocations() = item;
  stream->Write(asks);
  v1::AllocationResponse response;
  for (int confirmed = 0; !items.empty();) {
    if (!stream->Read(&response)) return false;
    check(response.rejectedallocations());
    for (auto& allocation : response.new_()) items[allocation.allocationkey()] = allocation;
    for (auto& release : response.released()) items.erase(release.allocationkey());
    confirmed += response.new__size();  // the server echoes every reported allocation
    if (!response.new__size() || confirmed < COUNT) continue;
    std::cout << (running ? "replayed " : "") << COUNT << " allocations" << std::endl;
    if (restart && !running) continue;
    for (auto& [key, item] : items) {
      auto* release = releases.mutable_releases()->add_allocationstorelease();
      release->set_allocationkey(key), release->set_applicationid("a1");
      release->set_terminationtype(v1::STOPPED_BY_RM);
    }
    stream->Write(releases);
  }
  std::cout << COUNT << " releases" << std::endl;
  of_nodes.TryCancel(), of_apps.TryCancel(), of_allocations.TryCancel();
  return true;
}

int main(int count, char** words) {
  if (count < 3 || std::string(words[2]) != "si") {
    std::cerr << "usage: example HOST:PORT si [restart]" << std::endl;
    return 1;
  }
  for (int i = 0; i < COUNT; i++) {
    auto& ask = items["k" + std::to_string(i)];
    ask.set_allocationkey("k" + std::to_string(i)), ask.set_applicationid("a1");
    vcore(ask.mutable_resourceperalloc(), 1000);
  }
  v1::Scheduler::Stub stub(grpc::CreateChannel(words[1], grpc::InsecureChannelCredentials()));
  while (!play(stub, count > 3)) std::this_thread::sleep_for(std::chrono::milliseconds(200));
}
