// Reads REST as the web UI of the older scheduler does: the same paths, the same fields, and no
// more care than it takes. What it would trip over throws here, into #error.
"use strict";

const query = new URLSearchParams(location.search);
const STATES = ["New", "Accepted", "Running", "Rejected", "Completing", "Completed", "Failing",
  "Failed", "Expired", "Resuming"];

// The API is where the page is, unless the test says otherwise. Names go into paths as they are.
async function get(path) {
  const answer = await fetch(`${query.get("api") ?? ""}/ws/v1${path}`);
  const body = await answer.json();
  if (!answer.ok) {
    throw new Error(`${body.StatusCode} ${body.Description}: ${body.Message}`);
  }
  return body;
}

function place(id) {
  return document.querySelector(`#${id}`);
}

function line(id, text, attributes = {}) {
  const item = document.createElement("p");
  item.textContent = text;
  Object.assign(item.dataset, attributes);
  place(id).append(item);
}

// A field of that kind, or an exception; "time" stands for nanoseconds that a page can show.
function read(thing, name, kind) {
  const value = thing[name];
  const right = {
    text: () => typeof value === "string",
    flag: () => typeof value === "boolean",
    number: () => Number.isFinite(value),
    list: () => Array.isArray(value),
    object: () => typeof value === "object" && value !== null && !Array.isArray(value),
    time: () => Number.isFinite(value) && new Date(value / 1e6).getFullYear() >= 1970,
  }[kind]();
  if (!right) {
    throw new TypeError(`${name} is no ${kind}: ${JSON.stringify(value)}`);
  }
  return value;
}

// Memory is in bytes and vcore in thousandths; a page divides and rounds.
function amounts(thing, name) {
  const resources = read(thing, name, "object");
  const shown = [];
  for (const [type, value] of Object.entries(resources)) {
    if (!Number.isInteger(value)) {
      throw new TypeError(`${name} has ${value} ${type}`);
    }
    shown.push(type === "memory" ? `${value / 2 ** 30} GiB` : type === "vcore" ? `${value / 1000} CPU` : `${value} ${type}`);
  }
  return shown.join(", ") || "n/a";
}

function percents(thing, name) {
  const shares = read(thing, name, "object");
  for (const [type, value] of Object.entries(shares)) {
    if (!Number.isInteger(value) || value < 0 || value > 100) {
      throw new TypeError(`wrong ${type} format: ${value}`);
    }
  }
  return JSON.stringify(shares);
}

async function dashboard() {
  const [cluster] = await get("/clusters");
  if (cluster) {
    const [build] = read(cluster, "rmBuildInformation", "list");
    const words = ["buildVersion", "rmId", "buildDate"].map((name) => read(build, name, "text"));
    line("dashboard", `cluster ${read(cluster, "clusterName", "text")} ${words.join(" ")}`);
  }
  for (const partition of await get("/partitions")) {
    const applications = read(partition, "applications", "object");
    const counts = STATES.map((state) => `${state} ${read(applications, state, "number")}`);
    line("dashboard", [
      read(partition, "name", "text"),
      read(read(partition, "nodeSortingPolicy", "object"), "type", "text"),
      `${read(partition, "totalNodes", "number")} nodes`,
      `${read(partition, "totalContainers", "number")} containers`,
      `${read(applications, "total", "number")} applications`,
      ...counts,
    ].join(", "));
  }
  for (const [kind, count] of [["apps", "totalApplications"], ["containers", "totalContainers"]]) {
    for (const sample of await get(`/history/${kind}`)) {
      line("dashboard", `${kind} ${read(sample, count, "text")} at ${read(sample, "timestamp", "time")}`);
    }
  }
  for (const each of await get("/scheduler/node-utilizations")) {
    for (const one of read(each, "utilizations", "list")) {
      const buckets = read(one, "utilization", "list");
      const nodes = buckets.map((bucket) => read(bucket, "numOfNodes", "number"));
      const named = buckets.flatMap((bucket) => bucket.nodeNames ?? []);
      const first = read(buckets[0], "bucketName", "text");
      line("dashboard", `${read(each, "partition", "text")} ${read(one, "type", "text")}: ${nodes.length} buckets from ${first}, ${nodes.reduce((a, b) => a + b, 0)} nodes, ${named.length} names`);
    }
  }
}

function showQueue(queue, depth) {
  const template = queue.template ?? null;
  if (template) {
    amounts(template, "maxResource");
    amounts(template, "guaranteedResource");
    read(template, "properties", "object");
  }
  if (depth === 0) {
    read(queue, "isManaged", "flag");
    read(queue, "partition", "text");
  }
  line("queues", [
    read(queue, "queuename", "text"),
    read(queue, "status", "text"),
    read(queue, "isLeaf", "flag") ? "leaf" : "parent",
    `max ${amounts(queue, "maxResource")}`,
    `guaranteed ${amounts(queue, "guaranteedResource")}`,
    `allocated ${amounts(queue, "allocatedResource")}`,
    `pending ${amounts(queue, "pendingResource")}`,
    `used ${percents(queue, "absUsedCapacity")}`,
    `${Object.keys(read(queue, "properties", "object")).length} properties`,
  ].join(", "), { depth });
  const below = read(queue, "children", "list").flatMap((child) => showQueue(child, depth + 1));
  return queue.isLeaf ? [queue.queuename] : below;
}

function showAllocation(id, allocation) {
  const tags = read(allocation, "allocationTags", "object");
  const [space, pod] = ["namespace", "podName"].map((name) => tags[`kubernetes.io/meta/${name}`]);
  line(id, [
    `allocation ${space && pod ? `${space}/${pod}` : "<nil>"}`,
    ...["allocationKey", "nodeId", "applicationId", "queueName", "partition"].map((name) => read(allocation, name, "text")),
    amounts(allocation, "resource"),
    `priority ${read(allocation, "priority", "text")}`,
  ].join(" "));
}

function showApplication(application) {
  const states = read(application, "stateLog", "list").map(
    (entry) => `${read(entry, "applicationState", "text")} ${read(entry, "time", "time") > 0}`,
  );
  if (application.finishedTime !== undefined) {
    read(application, "finishedTime", "time");
  }
  read(application, "submissionTime", "time");
  read(application, "lastStateChangeTime", "time");
  line("applications", [
    read(application, "applicationID", "text"),
    read(application, "applicationState", "text"),
    `used ${amounts(application, "usedResource")}`,
    `pending ${amounts(application, "pendingResource")}`,
    `most ${amounts(application, "maxUsedResource")}`,
    `states ${states.join(" ")}`,
  ].join(", "));
  read(application, "allocations", "list").forEach((each) => showAllocation("applications", each));
}

function showNodes(nodes) {
  const list = place("nodes").querySelector("ul");
  const filter = place("nodes").querySelector("input");
  const draw = () => {
    list.replaceChildren();
    for (const node of nodes) {
      // Whoever types looks at the attributes of every node.
      const words = Object.entries(node.attributes).flat().concat(node.nodeID);
      if (words.some((word) => word.includes(filter.value))) {
        const item = document.createElement("li");
        item.textContent = [
          ...["nodeID", "hostName", "rackName", "partition"].map((name) => read(node, name, "text") || "n/a"),
          ...["capacity", "allocated", "occupied", "available"].map((name) => `${name} ${amounts(node, name)}`),
          `utilized ${percents(node, "utilized")}`,
        ].join(", ");
        list.append(item);
      }
    }
  };
  filter.addEventListener("input", draw);
  draw();
  for (const node of nodes) {
    read(node, "allocations", "list").forEach((each) => showAllocation("nodes", each));
    read(node, "foreignAllocations", "list").forEach((each) => showAllocation("nodes", each));
  }
}

async function status() {
  const health = await get("/scheduler/healthcheck");
  line("status", `Healthy ${read(health, "Healthy", "flag")}`);
  for (const check of read(health, "HealthChecks", "list")) {
    line("status", `${read(check, "Name", "text")}: ${read(check, "Succeeded", "flag")} ${read(check, "Description", "text")} ${read(check, "DiagnosisMessage", "text")}`);
  }
}

async function everything() {
  try {
    await dashboard();
    await status();
    const chosen = query.get("partition") ?? (await get("/partitions"))[0]?.name;
    if (chosen !== undefined) {
      const leaves = showQueue(await get(`/partition/${chosen}/queues`), 0);
      for (const leaf of leaves) {
        (await get(`/partition/${chosen}/queue/${leaf}/applications`)).forEach(showApplication);
      }
      showNodes(await get(`/partition/${chosen}/nodes`));
    }
  } catch (error) {
    place("error").textContent = `${error}`;
  }
  document.body.dataset.read = "all";
}

everything();
