/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLI_PROGRAM_H
#define MST_CLI_PROGRAM_H

/* What ranks run: a program, or a Python script or module, which is named without its interpreter
 * as torchrun takes it. */

#include <stdbool.h>

#include "cli/cli.h"
#include "launch/run.h"

/* Sets the program's name; puts the interpreter before its arguments if it needs one, or
 * `is_module`. OK, or an exit code after one line. */
int mst_cli_program_take(const struct mst_cli *cli, bool is_module,
                         struct mst_run_program *program);

#endif
