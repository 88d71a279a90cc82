/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLI_PROGRAMS_H
#define MST_CLI_PROGRAMS_H

/* `muster run -n 1 ./a : -n 8 ./b`: a word ":" begins the next program of the run. The last word is
 * none, so `sh -c :` is one program. */

#include "cli/cli.h"
#include "launch/run.h"

/* What is given for --nproc-per-node: a number, or the kind of processors that are counted. OK, or
 * an exit code after one line. */
int mst_cli_nproc(const struct mst_cli *cli, const char *text, uint32_t *out);

/* Takes them out of the arguments of `cli`, which they borrow, and adds their counts to
 * `options->nproc`: to that of the first, which is set. OK, or an exit code after one line. */
int mst_cli_programs(const struct mst_cli *cli, struct mst_run_options *options);
void mst_cli_programs_free(struct mst_run_options *options);

#endif
