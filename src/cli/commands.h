/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLI_COMMANDS_H
#define MST_CLI_COMMANDS_H

#include "cli/cli.h"

/* One row, one file: src/cli/<name>.c. */
extern const struct mst_cli_command mst_cli_run;
extern const struct mst_cli_command mst_cli_serve;
extern const struct mst_cli_command mst_cli_status;
extern const struct mst_cli_command mst_cli_top;
extern const struct mst_cli_command mst_cli_why;
extern const struct mst_cli_command mst_cli_key;
extern const struct mst_cli_command mst_cli_barrier;
extern const struct mst_cli_command mst_cli_round;
extern const struct mst_cli_command mst_cli_preempt;
extern const struct mst_cli_command mst_cli_chaos;
extern const struct mst_cli_command mst_cli_replay;
extern const struct mst_cli_command mst_cli_exec;
extern const struct mst_cli_command mst_cli_env;
extern const struct mst_cli_command mst_cli_agent;
extern const struct mst_cli_command mst_cli_completion;

#endif
