/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLI_HELP_H
#define MST_CLI_HELP_H

/* The tables of a command as text, for the help on a terminal, the manual in roff and shell
 * completion. None of these has text of its own about a flag. */

#include "cli/cli.h"

/* How the flags of a command are written, group by group. */
struct mst_cli_writer {
    void (*title)(const char *title); /* before the flags of a group */
    void (*flag)(const struct mst_cli_value *value);
};

void mst_cli_write_flags(const struct mst_cli *cli, const struct mst_cli_writer *writer);

/* "job_bytes_max" as it is typed behind two dashes. */
void mst_cli_flag_name(const char *setting, char *out, size_t room);

/* The value in one word: "DURATION", "FILE"; empty: it takes none. */
const char *mst_cli_flag_word(const struct mst_setting *row);

/* The text with the default. */
void mst_cli_flag_help(const struct mst_setting *row, char *out, size_t room);

/* The exit codes that all commands share, ended by a NULL text. */
struct mst_cli_exit_code {
    int code;
    const char *text;
};
extern const struct mst_cli_exit_code mst_cli_exit_codes[];

/* What the program is, in one line. */
extern const char mst_cli_purpose[];

/* The variables of the environment that are read and are no settings, ended by a NULL name. */
struct mst_cli_variable {
    const char *name; /* as settings have it: "runtime_dir" */
    const char *help;
};
extern const struct mst_cli_variable mst_cli_variables[];

/* Writes the manual, one page per command, the program's and the environment's, into a folder. An
 * exit code. */
int mst_cli_manual(const char *folder, const char *date);

#endif
