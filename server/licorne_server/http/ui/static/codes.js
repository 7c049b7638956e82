// The codes of reasons, in words. A code that is not known here stands for itself.

const WORDS = {
  NEVER_FITS: "can never start",
  PARTITION_NOT_SCHEDULING: "scheduling is on hold, or there are no nodes",
  APPLICATION_NOT_RUNNABLE: "the application may not run",
  APPLICATION_HELD: "an operator holds the application",
  ANOTHER_APPLICATION_STARTS: "another application starts first",
  QUEUE_STOPPED: "the queue is stopped",
  APPLICATION_BACKS_OFF: "the application backs off",
  ASK_BACKS_OFF: "the ask backs off",
  QUEUE_MAX_APPLICATIONS: "the queue runs all applications that it may",
  USER_MAX_APPLICATIONS: "the user runs all applications that may run",
  GROUP_MAX_APPLICATIONS: "the group runs all applications that may run",
  WAITS_FOR_PLACEHOLDER: "waits for a placeholder",
  BUDGET_EXCEEDED: "a budget is used up",
  BUDGET_EXHAUSTED: "the hours of a queue are used up",
  QUEUE_CLOSED: "the queue is closed at this time of the day",
  QUEUE_MAX_EXCEEDED: "a queue is at its maximum",
  USER_QUOTA_EXCEEDED: "a user is at the limit",
  GROUP_QUOTA_EXCEEDED: "a group is at the limit",
  MAXIMUM_HELD: "would delay a planned start under a maximum",
  TOO_MANY_ANSWERS_OWED: "waits for answers of the RM",
  TOPOLOGY_NO_DOMAIN: "no domain has room for all of the gang",
  GANG_INCOMPLETE: "not all members have been asked for",
  ELASTIC_MAX: "the gang has all members that it may have",
  BEHIND_RESERVATION: "would delay a planned start",
  NO_NODE_FITS: "no node fits",
  WAITS_FOR_TURN: "waits for its turn",
  WAITS_FOR_ANSWER: "waits for the RM’s answer",
  REPLACES_PLACEHOLDER: "replaces a placeholder",
};

/** The code under which lists have asks of a code: they repeat no try, so they tell no planned start from a full node. */
export const listedAs = (code) => (code === "BEHIND_RESERVATION" ? "NO_NODE_FITS" : code);

/** All codes of lists, for a choice among them. */
export const CODES = Object.keys(WORDS).filter((code) => listedAs(code) === code);

export const codeInWords = (code) => WORDS[code] || code;
