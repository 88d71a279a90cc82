/* SPDX-License-Identifier: Apache-2.0 */
/* proto/muster.proto. */
#include "proto/command.h"
#include "proto/field_rows.h"
#include "proto/greeting.h"
#include "proto/reply.h"

enum { COMMAND_BASE = 16 };
/* ---- the connection ---- */

#define OF struct mst_hello
static const struct mst_field hello_rows[] = {
    ROW(1, UINT32, version_min, version_min),
    ROW(2, UINT32, version_max, version_max),
    ROW(3, BYTES, auth, auth),
    ROW(4, STRING, program, program),
};
#undef OF
const struct mst_message mst_hello_fields = {
    .name = "Hello", ROWS(hello_rows), .size = sizeof(struct mst_hello)};

#define OF struct mst_welcome
static const struct mst_field welcome_rows[] = {
    ROW(1, UINT32, version, version),
    ROW(2, STRING, service, service),
    ROW(3, STRING, refusal, refusal),
    ROW(4, UINT64, frame_bytes_max, frame_bytes_max),
    ROW(5, UINT64, key_bytes_max, key_bytes_max),
    ROW(6, UINT64, value_bytes_max, value_bytes_max),
    ROW(7, UINT64, contribution_bytes_max, contribution_bytes_max),
};
#undef OF
const struct mst_message mst_welcome_fields = {
    .name = "Welcome", ROWS(welcome_rows), .size = sizeof(struct mst_welcome)};

/* ---- requests ---- */

#define OF struct mst_write
static const struct mst_field operation_rows[] = {
    BOUNDED(1, ENUM, kind, kind, MST_INSERT, MST_DELETE, NULL),
    ROW(2, BOOL, owned, owned),
    ROW(3, BYTES, key, key),
    ROW(4, BYTES, value, value),
    ROW(5, UINT64, expected, expected),
    ROW(6, SINT64, delta, delta),
};
#undef OF
static const struct mst_message operation_message = {
    .name = "Operation", ROWS(operation_rows), .size = sizeof(struct mst_write), .bounded = BIT(1)};

#define OF struct mst_rank_progress
static const struct mst_field progress_rows[] = {
    ROW(1, UINT32, index, index),
    ROW(2, UINT64, pid, pid),
    ROW(3, UINT64, generation, generation),
    ROW(4, SINT64, step, step),
    ROW(5, BOOL, stepped, stepped),
    ROW(6, UINT32, rate, rate),
    ROW(7, UINT32, quiet_ms, quiet_ms),
    BOUNDED(8, ENUM, work, work, MST_WORK_NONE, MST_WORK_CPU, NULL),
    ROW(9, UINT32, work_us, work_us),
    ROW(10, UINT32, share, share),
    ROW(11, BYTES, section, section),
    ROW(12, UINT32, behind, behind),
    ROW(13, UINT32, slower, slower),
    ROW(14, BOOL, straggler, straggler),
    ROW(15, UINT32, repeated, repeated),
};
#undef OF
static const struct mst_message progress_message = {.name = "Progress",
                                                    ROWS(progress_rows),
                                                    .size = sizeof(struct mst_rank_progress),
                                                    .bounded = BIT(8)};

#define OF struct mst_request
static const struct mst_field open_rows[] = {
    ROW(1, FIXED64, token_high, open.token.high),
    ROW(2, FIXED64, token_low, open.token.low),
    ROW(3, BYTES, job, open.job),
    BOUNDED(4, ENUM, role, open.role, MST_ROLE_OBSERVER, MST_ROLE_AGENT, NULL),
    ROW(5, UINT32, index, open.index),
    ROW(6, UINT64, incarnation, open.incarnation),
    ROW(7, UINT64, generation, open.generation),
    ROW(8, UINT32, size, open.size),
    ROW(9, UINT32, min_size, open.min_size),
    ROW(10, UINT64, join_wait_ms, open.join_wait_ms),
    BOUNDED(11, ENUM, grow, open.grow, MST_GROW_CHECK, MST_GROW_OFF, NULL),
    ROW(12, BYTES, host, open.host),
    ROW(13, UINT64, pid, open.pid),
    ROW(14, PLUS_ONE, node, open.node),
    ROW(15, UINT32, max_size, open.max_size),
    ROW(16, UINT32, size_multiple, open.size_multiple),
    ROW(17, BOOL, replaces, open.replaces),
};
static const struct mst_message open_message = {
    .name = "Open", ROWS(open_rows), .bounded = BIT(4) | BIT(11), .plus_one = BIT(14)};

static const struct mst_field join_rows[] = {
    ROW(1, BOOL, spare, join.spare),
    ROW(2, UINT64, heard, join.heard),
};
static const struct mst_message join_message = {.name = "Join", ROWS(join_rows)};

static const struct mst_field renew_rows[] = {
    PARTS(1, progress, progress, renew.progress, renew.count, MST_PROGRESS_MAX,
          "more ranks than a renewal may have:"),
};
static const struct mst_message renew_message = {.name = "Renew", ROWS(renew_rows)};
static const struct mst_message leave_message = {.name = "Leave"};

static const struct mst_field cancel_rows[] = {
    ROW(1, UINT64, id, cancel.id),
};
static const struct mst_message cancel_message = {.name = "Cancel", ROWS(cancel_rows)};

static const struct mst_field write_rows[] = {
    ROW(1, UINT64, generation, write.generation),
    PARTS(2, operation, ops, write.ops, write.count, 0, NULL),
};
static const struct mst_message write_message = {.name = "Write", ROWS(write_rows)};

static const struct mst_field get_rows[] = {
    ROW(1, UINT64, generation, get.generation),
    ROW(2, BYTES, key, get.key),
    ROW(3, BOOL, wait, get.wait),
};
static const struct mst_message get_message = {.name = "Get", ROWS(get_rows)};

static const struct mst_field list_rows[] = {
    ROW(1, UINT64, generation, list.generation),
    ROW(2, BYTES, prefix, list.prefix),
    ROW(3, BYTES, after, list.after),
};
static const struct mst_message list_message = {.name = "List", ROWS(list_rows)};

static const struct mst_field wait_rows[] = {
    ROW(1, UINT64, generation, wait.generation),
    ARRAY(2, BYTES, keys, wait.keys, wait.count, 0, NULL),
};
static const struct mst_message wait_message = {.name = "Wait", ROWS(wait_rows)};

static const struct mst_field watch_rows[] = {
    BOUNDED(1, UINT32, kinds, watch.kinds, 0,
            MST_WATCH_KEYS | MST_WATCH_MEMBERS | MST_WATCH_FAULTS | MST_WATCH_VIEW, NULL),
    ROW(2, UINT64, generation, watch.generation),
    ROW(3, BYTES, prefix, watch.prefix),
    ROW(4, UINT64, after, watch.after),
    ROW(5, PLUS_ONE, node, watch.node),
};
static const struct mst_message watch_message = {
    .name = "Watch", ROWS(watch_rows), .bounded = BIT(1), .plus_one = BIT(5)};

static const struct mst_field round_rows[] = {
    ROW(1, UINT64, generation, round.generation),
    ROW(2, BYTES, name, round.name),
    ROW(3, UINT64, number, round.number),
    ARRAY(4, UINT32, participants, round.participants, round.participant_count, 0, NULL),
    ROW(5, UINT64, deadline_ms, round.deadline_ms),
    BOUNDED(6, ENUM, on_loss, round.on_loss, MST_FAIL, MST_PROCEED, NULL),
    BOUNDED(7, ENUM, reduce, round.reduce, MST_REDUCE_NONE, MST_REDUCE_BROADCAST, NULL),
    ROW(8, BOOL, present_only, round.present_only),
    ROW(9, BOOL, seal, round.seal),
    ROW(10, BYTES, data, round.data),
    ARRAY(11, UINT32, order, round.order, round.order_count, 0, NULL),
    ROW(12, BOOL, final, round.final),
    ROW(13, BOOL, any_deadline, round.any_deadline),
    ROW(14, UINT32, root, round.root),
    ROW(15, UINT64, replace_ms, round.replace_ms),
    ARRAY(16, BYTES, taken, round.taken, round.taken_count, 0, NULL),
};
static const struct mst_message round_message = {
    .name = "Round", ROWS(round_rows), .bounded = BIT(6) | BIT(7)};

static const struct mst_field round_members_rows[] = {
    ROW(1, UINT64, generation, round_members.generation),
    ROW(2, BYTES, name, round_members.name),
    ROW(3, UINT64, number, round_members.number),
    ROW(4, UINT64, after, round_members.after),
};
static const struct mst_message round_members_message = {.name = "RoundMembers",
                                                         ROWS(round_members_rows)};

static const struct mst_field page_rows[] = {
    ROW(1, UINT64, after, page.after),
};
static const struct mst_message page_message = {.name = "Page", ROWS(page_rows)};

static const struct mst_field fault_rows[] = {
    ROW(1, UINT64, generation, fault.generation),
    ROW(2, SINT32, code, fault.code),
    ROW(3, BYTES, text, fault.text),
    BOUNDED(4, ENUM, kind, fault.kind, MST_CAUSE_NONE, MST_CAUSE_LAST, NULL),
    ROW(5, UINT64, pid, fault.pid),
    ROW(6, UINT32, index, fault.index),
    ROW(7, UINT32, peer, fault.peer),
};
static const struct mst_message fault_message = {
    .name = "Fault", ROWS(fault_rows), .bounded = BIT(4)};

static const struct mst_field lost_rows[] = {
    ROW(1, UINT32, index, lost.index),
    ROW(2, UINT64, pid, lost.pid),
    BOUNDED(3, ENUM, cause, lost.cause, MST_CAUSE_NONE, MST_CAUSE_LAST, NULL),
    ROW(4, SINT32, code, lost.code),
    ROW(5, BYTES, text, lost.text),
    ROW(6, BOOL, last, lost.last),
};
static const struct mst_message lost_message = {.name = "Lost", ROWS(lost_rows), .bounded = BIT(3)};

static const struct mst_field cut_rows[] = {
    ROW(1, UINT32, index, cut.index),
    ROW(2, UINT64, incarnation, cut.incarnation),
    ROW(3, UINT64, for_ms, cut.for_ms),
    ROW(4, BOOL, worker, cut.worker),
};
static const struct mst_message cut_message = {.name = "Cut", ROWS(cut_rows)};

static const struct mst_field delete_prefix_rows[] = {
    ROW(1, UINT64, generation, delete_prefix.generation),
    ROW(2, BYTES, prefix, delete_prefix.prefix),
};
static const struct mst_message delete_prefix_message = {.name = "DeletePrefix",
                                                         ROWS(delete_prefix_rows)};

static const struct mst_field request_rows[] = {
    ROW(1, UINT64, id, id),
    ROW(2, UINT64, oldest, oldest),
    CASE(COMMAND_BASE + MST_OPEN, open, open),
    CASE(COMMAND_BASE + MST_JOIN, join, join),
    CASE(COMMAND_BASE + MST_RENEW, renew, renew),
    CASE(COMMAND_BASE + MST_LEAVE, leave, leave),
    CASE(COMMAND_BASE + MST_CANCEL, cancel, cancel),
    CASE(COMMAND_BASE + MST_WRITE, write, write),
    CASE(COMMAND_BASE + MST_GET, get, get),
    CASE(COMMAND_BASE + MST_LIST, list, list),
    CASE(COMMAND_BASE + MST_WAIT, wait, wait),
    CASE(COMMAND_BASE + MST_WATCH, watch, watch),
    CASE(COMMAND_BASE + MST_ROUND, round, round),
    CASE(COMMAND_BASE + MST_ROUND_MEMBERS, round_members, round_members),
    CASE(COMMAND_BASE + MST_MEMBERS, page, members),
    CASE(COMMAND_BASE + MST_ROUNDS, page, rounds),
    CASE(COMMAND_BASE + MST_JOBS, page, jobs),
    CASE(COMMAND_BASE + MST_FAULT, fault, fault),
    CASE(COMMAND_BASE + MST_LOST, lost, lost),
    CASE(COMMAND_BASE + MST_HOSTS, page, hosts),
    CASE(COMMAND_BASE + MST_FAULTS, page, faults),
    CASE(COMMAND_BASE + MST_CUT, cut, cut),
    CASE(COMMAND_BASE + MST_HISTORY, page, history),
    CASE(COMMAND_BASE + MST_DELETE_PREFIX, delete_prefix, delete_prefix),
};
static const struct mst_field request_which = {FIELD(0, ENUM, command, command)};

const struct mst_message mst_request_fields = {
    .name = "Request",
    ROWS(request_rows),
    .size = sizeof(struct mst_request),
    .which = &request_which,
    .base = COMMAND_BASE,
    .body = offsetof(struct mst_request, open),
    .body_size = sizeof(struct mst_request) - offsetof(struct mst_request, open),
    .plain = 2,
};
#undef OF

_Static_assert(sizeof request_rows / sizeof request_rows[0] == COMMAND_BASE + MST_COMMANDS,
               "every command has its row");

/* ---- replies ---- */

#define OF struct mst_who
static const struct mst_field who_rows[] = {
    ROW(1, UINT32, index, index),
    ROW(2, UINT32, rank, rank),
    ROW(3, UINT64, incarnation, incarnation),
    BOUNDED(4, ENUM, role, role, MST_ROLE_OBSERVER, MST_ROLE_AGENT, NULL),
    BOUNDED(5, ENUM, state, state, 0, MST_SPARE, NULL),
    BOUNDED(6, ENUM, cause, cause, MST_CAUSE_NONE, MST_CAUSE_LAST, NULL),
    ROW(7, SINT32, code, code),
    ROW(8, UINT32, losses, losses),
    ROW(9, UINT64, heard_ms, heard_ms),
    ROW(10, UINT64, pid, pid),
    ROW(11, BYTES, host, host),
    ROW(12, PLUS_ONE, node, node),
};
#undef OF
static const struct mst_message who_message = {.name = "Who",
                                               ROWS(who_rows),
                                               .size = sizeof(struct mst_who),
                                               .bounded = BIT(4) | BIT(5) | BIT(6),
                                               .plus_one = BIT(12)};

#define OF struct mst_view
static const struct mst_field view_rows[] = {
    ROW(1, UINT64, generation, generation),
    ROW(2, UINT32, size, size),
    ROW(3, UINT32, rank, rank),
    ROW(4, UINT32, index, index),
    ROW(5, UINT64, incarnation, incarnation),
    BOUNDED(6, ENUM, attention, attention, MST_CALM, MST_INTERRUPT, NULL),
    ROW(7, UINT64, faults, faults),
    ROW(8, BOOL, spare, spare),
    ROW(9, BOOL, ordered, ordered),
    ROW(10, UINT32, size_of_job, size_of_job),
};
#undef OF
static const struct mst_message view_message = {
    .name = "View", ROWS(view_rows), .size = sizeof(struct mst_view), .bounded = BIT(6)};

#define OF struct mst_detail
static const struct mst_field detail_rows[] = {
    ROW(1, UINT32, arrived, arrived),
    ROW(2, UINT32, expected, expected),
    ROW(3, UINT32, lost, lost),
    ROW(4, UINT32, missing, missing),
    ROW(5, SINT64, limit, limit),
    FEW(6, who, who, who, who_count, "more names than a detail may have:"),
    ROW(7, UINT32, multiple, multiple),
    ROW(8, UINT32, limit_kind, limit_kind),
    ROW(9, UINT64, asked, asked),
};
#undef OF
static const struct mst_message detail_message = {
    .name = "Detail", ROWS(detail_rows), .size = offsetof(struct mst_detail, who)};

#define OF struct mst_item
static const struct mst_field item_rows[] = {
    BOUNDED(1, ENUM, kind, kind, MST_ITEM_KEY, MST_ITEM_INCIDENT, NULL),
    ROW(2, UINT64, revision, revision),
    ROW(3, UINT64, number, number),
    ROW(4, UINT32, arrived, arrived),
    ROW(5, UINT32, expected, expected),
    ROW(6, BYTES, name, name),
    ROW(7, BYTES, value, value),
    PART(8, who, who, who),
    ROW(9, UINT32, listening, listening),
    ROW(10, UINT32, awaited, awaited),
    ROW(11, UINT64, lost_ms, lost_ms),
    BOUNDED(12, ENUM, incident, incident, 0, MST_INCIDENT_LAST, NULL),
    ROW(13, UINT32, told_by, told_by),
    ROW(14, UINT32, total, total),
    ROW(15, UINT64, interrupt_ms, interrupt_ms),
    ROW(16, UINT64, gather_ms, gather_ms),
    ROW(17, SINT64, step, step),
    ROW(18, UINT64, since_ms, since_ms),
    ARRAY(19, UINT32, missing, missing, missing_count, MST_NAMES_MAX,
          "more names than a round may have:"),
    PART_IF(20, progress, progress, progress, has_progress),
};
#undef OF
static const struct mst_message item_message = {
    .name = "Item", ROWS(item_rows), .size = sizeof(struct mst_item), .bounded = BIT(1) | BIT(12)};

#define OF struct mst_reply
static const struct mst_field reply_rows[] = {
    ROW(1, UINT64, id, id),
    BOUNDED(2, UINT32, command, command, 1, MST_DELETE_PREFIX, NULL),
    BOUNDED(3, SINT32, status, status, INT32_MIN, 0, NULL),
    ROW(4, SINT64, number, number),
    ROW(5, UINT64, revision, revision),
    ROW(6, UINT64, next, next),
    ROW(7, BYTES, value, value),
    PART_IF(8, view, view, view, has_view),
    PART_IF(9, detail, detail, detail, has_detail),
    PARTS(10, item, items, items, item_count, 0, NULL),
    ROW(11, BYTES, addresses, addresses),
};
#undef OF

/* Its names are cleared as they are read. */
const struct mst_message mst_reply_fields = {.name = "Reply",
                                             ROWS(reply_rows),
                                             .size = offsetof(struct mst_reply, detail.who),
                                             .bounded = BIT(2) | BIT(3)};
