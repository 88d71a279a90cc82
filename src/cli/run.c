/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/fronts.h"
#include "cli/hosts.h"
#include "cli/programs.h"
#include "client/shell/signals.h"
#include "fronts/shell/kinds.h"
#include "launch/announcer.h"
#include "launch/nodes/launched.h"
#include "launch/run.h"
#include "net/endpoint.h"

#define NODES_MAX 65536u
#define JOIN_WAIT_MS 30000 /* of an elastic run without --join-wait */

/* Inside a rank of another run the environment describes the job of that one, not of this one. */
#ifdef MST_RAFT
enum { REPLICAS = 3 }; /* unless it is said otherwise */
#else
enum { REPLICAS = 1 };
#endif

static bool given(const struct mst_cli *cli, const char *name)
{
    return getenv("MUSTER_INDEX") ? mst_cli_typed(cli, name) : mst_cli_given(cli, name);
}

static int64_t number(const struct mst_cli *cli, const char *name)
{
    return given(cli, name) ? mst_cli_number(cli, name) : mst_cli_value(cli, name)->row->standard;
}

/* "3" or "2:4". False: it is neither. */
static bool read_nodes(const char *text, uint32_t *min_out, uint32_t *max_out)
{
    char *end = NULL;
    unsigned long min = strtoul(text, &end, 10), max = min;
    bool ok = end != text;

    if (ok && *end == ':') {
        text = end + 1;
        max = strtoul(text, &end, 10);
        ok = end != text;
    }
    if (!ok || *end != '\0' || min < 1 || max < min || max > NODES_MAX) {
        return false;
    }
    *min_out = (uint32_t)min;
    *max_out = (uint32_t)max;
    return true;
}

/* "3" or "none". False: it is neither. */
static bool read_input(const char *text, uint32_t *index_out)
{
    char *end = NULL;
    unsigned long index = strtoul(text, &end, 10);

    if (strcmp(text, "none") == 0) {
        *index_out = MST_RUN_NO_INPUT;
        return true;
    }
    *index_out = (uint32_t)index;
    return *text >= '0' && *text <= '9' && *end == '\0' && index < MST_RUN_SIZE_MAX;
}

static const char *text_of(const struct mst_cli *cli, const char *name)
{
    const char *text = given(cli, name) ? mst_cli_text(cli, name) : NULL;

    return text != NULL && *text != '\0' ? text : NULL;
}

/* Node 0 sets the parameters of the run; the other nodes receive them, and may repeat them. */
static void settle(struct mst_run_options *options)
{
    uint32_t nodes;

    options->nodes_min = options->nodes_min != 0 ? options->nodes_min : 1;
    options->nodes_max = options->nodes_max != 0 ? options->nodes_max : 1;
    nodes = options->nodes_max;
    if (options->replicas == 0) {
        options->replicas = REPLICAS;
    }
    if (options->replicas > nodes) { /* an even number survives no more losses than one less */
        options->replicas = nodes < 3 ? 1 : 3;
    }
    options->size = options->size != 0 ? options->size : nodes * options->nproc;
    if (options->spares != 0 && options->max_size == 0) {
        options->max_size = options->size;
    }
    if (options->nodes_min < nodes && options->min_size == 0) {
        options->min_size = options->nodes_min * options->nproc;
    }
    if (options->nodes_min < nodes && options->join_wait_ms == 0) {
        options->join_wait_ms = JOIN_WAIT_MS;
    }
}

/* Flags override the environment, and a descriptor overrides a file. */
static int take_secret(const struct mst_cli *cli, struct mst_run_options *options)
{
    bool file = mst_cli_typed(cli, "secret_file"), fd = mst_cli_typed(cli, "secret_fd");

    if (file && fd) {
        return mst_cli_usage(cli, "--secret-file or --secret-fd, not both");
    }
    options->secret_fd = file ? -1 : (int)number(cli, "secret_fd");
    options->secret_file = options->secret_fd < 0 ? text_of(cli, "secret_file") : NULL;
    return MST_CLI_OK;
}

/* Whether a secret is needed shows later. */
static int check_join(const struct mst_cli *cli, const struct mst_run_options *options)
{
    struct mst_endpoints endpoints;
    char why[320];

    if (mst_endpoints_parse(&endpoints, options->join, true, why, sizeof why) != MUSTER_OK) {
        return mst_cli_usage(cli, "--join %s: %s", options->join, why);
    }
    return MST_CLI_OK;
}

static int check_nodes(const struct mst_cli *cli, const struct mst_run_options *options)
{
    if (options->join != NULL && check_join(cli, options) != MST_CLI_OK) {
        return MST_CLI_USAGE;
    }
    if (options->join != NULL) {
        return options->job != NULL ? MST_CLI_OK
                                    : mst_cli_usage(cli,
                                                    "--join %s: the job is missing, as in -j JOB; "
                                                    "node 0 prints the whole line",
                                                    options->join);
    }
    if (options->node_rank > 0) {
        return mst_cli_usage(
            cli, "--node-rank %d: the address of node 0 is missing, as in --join HOST:PORT",
            (int)options->node_rank);
    }
    if ((uint64_t)options->nodes_max * (options->nproc + options->spares) > MST_RUN_SIZE_MAX) {
        return mst_cli_usage(cli, "%u nodes with %u processes each are more than %u processes",
                             (unsigned)options->nodes_max,
                             (unsigned)(options->nproc + options->spares), MST_RUN_SIZE_MAX);
    }
    if (options->replicas % 2 == 0) {
        return mst_cli_usage(cli,
                             "--replicas %u: 1, 3 or 5; an even number survives no more losses "
                             "than one less",
                             (unsigned)options->replicas);
    }
    if (options->nodes_max > 1 && options->size != options->nodes_max * options->nproc) {
        return mst_cli_usage(cli, "--size %u does not equal %u nodes with %u ranks each",
                             (unsigned)options->size, (unsigned)options->nodes_max,
                             (unsigned)options->nproc);
    }
    return MST_CLI_OK;
}

static int check_input(const struct mst_cli *cli, const struct mst_run_options *options)
{
    if (options->join == NULL && options->input != MST_RUN_NO_INPUT &&
        options->input >= mst_run_indices(options)) {
        return mst_cli_usage(cli, "--input %u: the indices of the job are 0 to %u",
                             (unsigned)options->input, (unsigned)mst_run_indices(options) - 1);
    }
    if (options->hosts != NULL && options->input != MST_RUN_NO_INPUT &&
        options->input >= options->nproc + options->spares) {
        return mst_cli_usage(cli,
                             "--input %u: with --hostfile the standard input is for a rank of this "
                             "host, 0 to %u",
                             (unsigned)options->input,
                             (unsigned)(options->nproc + options->spares) - 1);
    }
    return MST_CLI_OK;
}

static int check(const struct mst_cli *cli, const struct mst_run_options *options)
{
    char error[256];
    unsigned fronts;
    int64_t ms;
    bool jax;
    int code;

    if (cli->argument_count == 0) {
        return mst_cli_usage(cli,
                             "the program is missing; usage: muster run -n 4 -- PROGRAM ARGUMENTS");
    }
    if (mst_cli_typed(cli, "replace_wait") &&
        mst_setting_parse(mst_cli_value(cli, "replace_wait")->row, cli->arguments[0], &ms, error,
                          sizeof error) == MUSTER_OK) {
        return mst_cli_usage(cli, "--replace-wait %s: write --replace-wait=%s", cli->arguments[0],
                             cli->arguments[0]);
    }
    if (cli->alone != NULL && (options->nodes_max > 1 || options->join != NULL)) {
        return mst_cli_usage(cli, "%.*s: %s", (int)strcspn(cli->alone, "="), cli->alone,
                             cli->alone_answer);
    }
    if (cli->redirects && options->log_dir == NULL) {
        return mst_cli_usage(
            cli, "--redirects: the folder for the output is missing, as in --log-dir FOLDER");
    }
    if (options->tee && options->log_dir == NULL && !mst_cli_value(cli, "tee")->by_number) {
        return mst_cli_usage(cli,
                             "--tee: the folder for the output is missing, as in --log-dir FOLDER");
    }
    if (options->join == NULL && options->size < options->nproc) {
        return mst_cli_usage(cli, "--size %u is less than the %u ranks to be started",
                             (unsigned)options->size, (unsigned)options->nproc);
    }
    if (options->size != 0 && options->min_size > options->size) {
        return mst_cli_usage(cli, "--min-size %u is more than the %u ranks of the job",
                             (unsigned)options->min_size, (unsigned)options->size);
    }
    if (options->join == NULL && options->max_size != 0 && options->max_size < options->size) {
        return mst_cli_usage(cli, "--max-size %u is less than the %u ranks of the job",
                             (unsigned)options->max_size, (unsigned)options->size);
    }
    code = check_input(cli, options);
    code = code == MST_CLI_OK ? mst_cli_fronts(cli, options->fronts, &fronts, &jax) : code;
    return code == MST_CLI_OK ? check_nodes(cli, options) : code;
}

/* Settings that the ranks read too are passed on to them. */
static int take_notices(const struct mst_cli *cli, struct mst_run_options *options)
{
    const char *signals =
        given(cli, "preempt_signals") ? mst_cli_text(cli, "preempt_signals") : "TERM";
    struct muster_error err;
    char why[512], grace[32];

    options->preempt_sources = text_of(cli, "preempt_sources");
    options->preempt_period_ms = mst_cli_number(cli, "preempt_period");
    options->preempt_margin_ms = mst_cli_number(cli, "preempt_margin");
    options->preempt_grace_ms = number(cli, "preempt_grace");
    options->requeue_file = text_of(cli, "requeue_file");
    options->requeue = number(cli, "requeue") != 0 || options->requeue_file != NULL;
    if (mst_sources_check(mst_announcer_list(options->preempt_sources), why, sizeof why) !=
        MUSTER_OK) {
        return mst_cli_usage(cli, "%s", why);
    }
    if (mst_signals_read(&options->preempt_signals, signals, &err) != MUSTER_OK) {
        return mst_cli_usage(cli, "%s", err.text);
    }
    (void)snprintf(grace, sizeof grace, "%lldms", (long long)options->preempt_grace_ms);
    if ((mst_cli_typed(cli, "preempt_grace") && setenv("MUSTER_PREEMPT_GRACE", grace, 1) != 0) ||
        (mst_cli_typed(cli, "preempt_signals") &&
         setenv("MUSTER_PREEMPT_SIGNALS", signals, 1) != 0) ||
        (mst_cli_typed(cli, "preempt_sources") &&
         setenv("MUSTER_PREEMPT_SOURCES", mst_cli_text(cli, "preempt_sources"), 1) != 0)) {
        return mst_cli_fail(cli, "out of memory");
    }
    return MST_CLI_OK;
}

static int run(struct mst_cli *cli)
{
    static const char *const grow_words[] = {"check", "fault", "off"};
    const char *nproc = text_of(cli, "nproc_per_node");
    char lease[24];
    struct mst_run_options options = {
        .job = given(cli, "job") ? mst_cli_text(cli, "job") : NULL,
        .nproc = given(cli, "nproc") ? (uint32_t)number(cli, "nproc") : 0,
        .size = (uint32_t)number(cli, "size"),
        .spares = (uint32_t)number(cli, "spares"),
        .min_size = (uint32_t)number(cli, "min_size"),
        .max_size = (uint32_t)number(cli, "max_size"),
        .size_multiple = (uint32_t)number(cli, "size_multiple"),
        .join_wait_ms = number(cli, "join_wait"),
        .replace_wait_ms = number(cli, "replace_wait"),
        .grow = grow_words[number(cli, "grow")],
        .lease = lease,
        .http = given(cli, "http") ? mst_cli_text(cli, "http") : NULL,
        .history = (uint64_t)mst_cli_number(cli, "history"),
        .straggler_percent = (uint64_t)mst_cli_number(cli, "straggler_percent"),
        .buffered_bytes_max = (uint64_t)mst_cli_number(cli, "buffered_bytes_max"),
        .log_json = number(cli, "log_format") != 0,
        .record = given(cli, "record") ? mst_cli_text(cli, "record") : NULL,
        .max_restarts = (uint32_t)mst_cli_number(cli, "max_restarts"),
        .grace_ms = mst_cli_number(cli, "grace"),
        .max_time_ms = number(cli, "max_time"),
        .node_rank = number(cli, "node_rank"),
        .join = text_of(cli, "join"),
        .listen = text_of(cli, "listen"),
        .avoid = text_of(cli, "avoid"),
        .hostfile = text_of(cli, "hostfile"),
        .ssh = mst_cli_text(cli, "ssh"),
        .pass_env = text_of(cli, "pass_env"),
        .exported = cli->exported,
        .insecure = number(cli, "insecure") != 0,
        .replicas = (uint32_t)number(cli, "replicas"),
        .service_wait_ms = mst_cli_number(cli, "service_wait"),
        .restarts_given = mst_cli_given(cli, "max_restarts"),
        .role = mst_cli_text(cli, "role"),
        .fronts = given(cli, "front") ? mst_cli_text(cli, "front") : MST_FRONTS_DEFAULT,
        .jax_recoverable = number(cli, "jax_recoverable") != 0,
        .bind = (enum mst_bind)number(cli, "bind"),

        .dump = mst_cli_number(cli, "core") != 0,
        .label = mst_cli_number(cli, "label") != 0,
        .log_dir = text_of(cli, "log_dir"),
        .tee = number(cli, "tee") != 0,
        .report = text_of(cli, "report"),
        .keep_runs = (uint32_t)number(cli, "keep_runs"),
    };
    const char *nodes = text_of(cli, "nnodes"), *input = mst_cli_text(cli, "input");
    struct mst_launched launched;
    struct mst_cli_hosts hosts = {.flags = {NULL}};
    int code;

    if (nodes != NULL && !read_nodes(nodes, &options.nodes_min, &options.nodes_max)) {
        return mst_cli_usage(cli, "--nnodes %s: a number of nodes or MIN:MAX is expected", nodes);
    }
    if (!read_input(input, &options.input)) {
        return mst_cli_usage(cli, "--input %s: the index of a rank or 'none' is expected", input);
    }
    code = nproc != NULL ? mst_cli_nproc(cli, nproc, &options.nproc) : MST_CLI_OK;
    if (code == MST_CLI_OK) {
        code = mst_cli_hosts_take(cli, &hosts, &options);
    }
    if (code == MST_CLI_OK) {
        code = take_secret(cli, &options);
    }
    if (code == MST_CLI_OK) {
        code = mst_launched_take(&options, &launched);
    }
    if (code == MST_CLI_OK) {
        code = mst_cli_programs(cli, &options);
    }
    if (options.join == NULL) {
        /* The variable is for nodes that join; only the flag opens a service to other hosts. */
        options.insecure = options.insecure && mst_cli_typed(cli, "insecure");
        settle(&options);
    }
    code = code == MST_CLI_OK ? check(cli, &options) : code;
    if (code == MST_CLI_OK) {
        code = take_notices(cli, &options);
    }
    (void)snprintf(lease, sizeof lease, "%lldms", (long long)mst_cli_number(cli, "lease"));
    mst_cli_forget_place();
    code = code == MST_CLI_OK ? mst_run(&options) : code;
    mst_cli_programs_free(&options);
    mst_cli_hosts_release(&hosts);
    return code;
}

const struct mst_cli_command mst_cli_run = {
    .name = "run",
    .arguments = "-- PROGRAM [ARGUMENTS] [: -n N -- PROGRAM ...]",
    .summary =
        "start the ranks of a job, watch them, and restart lost ones; on one node or several",
    .details =
        "Each rank gets MUSTER_*, RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT "
        "and the other variables that torchrun sets. A failed rank is restarted if any rank "
        "has opened a muster client. Otherwise, if --max-restarts is given, all ranks are "
        "stopped and started again, as torchrun does. When no restart is left the run ends, "
        "and its last line names the first cause. Index 0, or --input INDEX, gets the standard "
        "input; that of the others is empty. A run of one process on a terminal gives it a "
        "terminal of its own. The child processes of a rank end with it, also when "
        "muster run is killed, except a process that has left the "
        "rank's process group. SIGTERM, SIGINT, SIGHUP and SIGQUIT reach all ranks and end "
        "the run within the grace time; SIGUSR1 and SIGUSR2 are passed on.\n"
        "\n"
        "If a rank has called muster_preempt_open, SIGTERM is a preemption notice instead: "
        "all ranks of the job save the same step and end, and the run exits with status 75. "
        "--preempt-sources lists further notice sources: signals, file=PATH, command=CMD, "
        "deadline=TIME, slurm. --requeue has a Slurm job run again after all have saved.\n"
        "\n"
        "--max-time 2h ends the run after that time: with a preemption notice, as SIGTERM "
        "does, or with SIGTERM and the grace time. It exits with 75 if all ranks saved, "
        "else with 124. On several nodes the time of node 0 counts.\n"
        "\n"
        "Programs of JAX run unchanged: their jax.distributed.initialize() finds muster run, each "
        "process is a rank, and a lost one ends the others at once; with --jax-recoverable they "
        "go on. --front tcpstore, or xla,tcpstore, is the same for the store of torch; "
        "--front none has neither.\n"
        "\n"
        "While a rank is replaced the other ranks keep running; with --replace-wait they wait "
        "for it, so that the number of ranks stays the same. After a restart limit, or "
        "when too few ranks are left, all ranks of all nodes are stopped and started again; "
        "this counts as one restart.\n"
        "\n"
        "--bind core shares out the cores of this node evenly among its processes, --bind "
        "numa its NUMA nodes: of those that muster run itself may use. Each node has its "
        "own --bind.\n"
        "\n"
        "--spares K starts K more processes on each node. The first size ready processes "
        "run; the others wait until one is lost, also one of another node, and with "
        "--nnodes MIN:MAX also for a missing node. With spares the run continues while "
        "there are size processes, or --min-size.\n"
        "\n"
        "PROGRAM may be a Python script without its interpreter. Flags of torchrun, mpirun "
        "and srun that mean the same are accepted, such as -np, --standalone, --tee 3 and "
        "-x NAME=VALUE; others are answered with the flag that does it.\n"
        "\n"
        "--log-dir DIR writes the ranks' output to files instead of the terminal: "
        "DIR/JOB/INDEX/ATTEMPT/stdout.log and stderr.log, for each process its own, byte "
        "for byte. --report FILE describes the end of the run in JSON.\n"
        "\n"
        "A word ':' begins another program of the same run, as for mpirun, with -n (default: 1) "
        "and "
        "-m of its own; all other flags stand before the first program. Indices count on: the "
        "first program has 0 to n-1. A restarted process runs its own program again, spares "
        "run the last one, and each node starts all of them.\n"
        "\n"
        "Several nodes: pass --nnodes on the first one, which prints the line for the "
        "others; or --hostfile FILE, and ssh starts them; under srun no flag at all. With three "
        "nodes or more three of them have a replica of the service, and the job goes on when the "
        "host of one is lost, node 0's too.\n"
        "\n"
        "Exit codes: 0 all ranks succeeded; the first failed rank's status, or 128 plus its "
        "signal; 75 a rank, or all of them, saved and ask to be run again; 124 --max-time "
        "is over; 125 the launcher failed, 126 the program cannot be executed, 127 it is "
        "not found.\n",

    .example = "  muster run -n 4 --max-restarts 5 -- ./train --steps 1000\n"
               "  muster run -n 1 ./coordinator : -n 8 ./worker\n"
               "  srun -N4 --ntasks-per-node=1 muster run -n 2 -- ./train\n",
    .scopes = MST_CLI_SCOPE(MST_SCOPE_RUN) | MST_CLI_SCOPE(MST_SCOPE_SERVICE),
    .runs_program = true,
    .run = run,
};
