/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLI_CLI_H
#define MST_CLI_CLI_H

/* The frame of the program: a command is one file and one const descriptor. Its flags are rows of
 * flags.def, and of settings.def by scope; so the parser, the help and the environment read one
 * table. Precedence: flag, then MUSTER_<NAME>, then the default. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/muster.h"
#include "net/elsewhere.h"
#include "net/secret.h"
#include "proto/settings.h"

/* Exit codes, as docs and `timeout` and `env` have them. */
#define MST_CLI_OK 0
#define MST_CLI_FAILED 1
#define MST_CLI_USAGE 2
#define MST_CLI_REPLICA_ENDED 76 /* of `muster serve --replica` */
#define MST_CLI_DEADLINE 124

#define MST_CLI_SCOPE(scope) (1u << (unsigned)(scope))

/* Which service a command speaks to, and how it proves that it may. */
#define MST_CLI_PLACE_FLAGS "addr job secret_file secret_fd insecure"

struct mst_cli;

struct mst_cli_command {
    const char *name;
    const char *arguments; /* for the usage line: "NAME [VALUE]" */
    const char *summary;   /* one line */
    const char *details;   /* further lines of the help, or NULL */
    const char *example;   /* whole lines */
    unsigned scopes;       /* of settings.def, whose rows are flags too: MST_CLI_SCOPE(...) | ... */
    bool finds_job;        /* takes --addr, -j and the secret, and finds the service by itself */
    bool runs_program;     /* what follows the first argument is not ours */
    int (*run)(struct mst_cli *cli);
};

struct mst_cli_value {
    const struct mst_setting *row;
    char letter;
    bool given;        /* by a flag or the environment */
    const char *typed; /* NULL: not by a flag */
    bool by_number;    /* as torchrun's users do: how many streams */
    int64_t number;
    char *text; /* NULL: not given and no default */
};

#define MST_CLI_VALUES_MAX 64

struct mst_cli {
    const struct mst_cli_command *command;
    uint64_t began_ms;   /* when --timeout began */
    const char *program; /* argv[0] */
    struct mst_cli_value values[MST_CLI_VALUES_MAX];
    size_t value_count;
    bool redirects; /* a synonym was given by which all output goes into --log-dir */
    const char *alone, *alone_answer; /* a synonym that has no effect on one node; on several it is
                                         refused with this */
    char *exported;                   /* names of variables of the ranks, with commas; or NULL */
    char **arguments;                 /* arguments other than flags; NULL-terminated */
    int argument_count;
};

extern const struct mst_cli_command *const mst_cli_commands[];
extern const size_t mst_cli_command_count;

/* Whether `word` is one of `list`, which has blanks between its words. */
bool mst_cli_listed(const char *list, const char *word);

/* The command of that name, or NULL. */
const struct mst_cli_command *mst_cli_find(const char *name);

/* The value of a flag of this command. A name it does not have is a bug and aborts. */
const struct mst_cli_value *mst_cli_value(const struct mst_cli *cli, const char *name);
int64_t mst_cli_number(const struct mst_cli *cli, const char *name);
const char *mst_cli_text(const struct mst_cli *cli, const char *name);
bool mst_cli_given(const struct mst_cli *cli, const char *name);
bool mst_cli_typed(const struct mst_cli *cli, const char *name); /* by a flag */

/* The flags of a command with their defaults, and no arguments. */
void mst_cli_take_rows(struct mst_cli *cli, const struct mst_cli_command *command);

/* The flag that a word of this size means, "--log-level" or "-j"; NULL: none. */
/* The value of a flag that is typed without one; NULL: it needs one. */
const char *mst_cli_flag_alone(const struct mst_setting *row);
struct mst_cli_value *mst_cli_flag_of(struct mst_cli *cli, const char *word, size_t size);

/* As if that text had been typed for the flag. */
void mst_cli_give(struct mst_cli *cli, const char *name, const char *text);

/* Parses. OK, or an exit code after one line on stderr; -1: the help was asked for. */
int mst_cli_parse(struct mst_cli *cli, const struct mst_cli_command *command, char **argv);
/* Reads an argument by a row. OK, or an exit code after one line. */
int mst_cli_argument(const struct mst_cli *cli, const struct mst_setting *row, const char *word,
                     int64_t *out);
void mst_cli_release(struct mst_cli *cli);

void mst_cli_help(const struct mst_cli *cli);
void mst_cli_help_all(void);

/* One warning that names the unknown MUSTER_* variables. Commands started from here do not repeat
 * it. */
void mst_cli_warn_environment(void);

/* The word of `words` (NULL-terminated) that is most like `word`; NULL: none is near. */
const char *mst_cli_nearest(const char *word, const char *const *words);

/* "muster <command>: <message>" on stderr; the exit code. */
int mst_cli_usage(const struct mst_cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int mst_cli_fail(const struct mst_cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The rest of --timeout, for a call; `standard_ms` without --timeout. */
int64_t mst_cli_left_ms(const struct mst_cli *cli, int64_t standard_ms);

/* The same for a failed call: its text, and 124 where a deadline passed, that of --timeout too. */
int mst_cli_fail_with(const struct mst_cli *cli, const struct muster_error *err);

/* Text on stdout, unchanged; write errors are reported once, at the end. One line on stderr, in
 * which names are escaped. */
void mst_cli_put(const char *format, ...) __attribute__((format(printf, 1, 2)));
void mst_cli_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Which service and job a command speaks to. */
struct mst_cli_place {
    char addr[MST_ADDRESSES_TEXT];
    char job[MST_SOCKET_PATH_MAX];
    struct mst_elsewhere elsewhere; /* if it is on another machine: how it is reached */
};

/* --addr and -j, or else the service in the runtime directory. OK, or an exit code after one line:
 * no service, or several without -j. */
int mst_cli_locate(const struct mst_cli *cli, struct mst_cli_place *out);

/* Whether a service here has that job, or, without one, any. */
bool mst_cli_runs_here(const char *job);

/* A command started by a rank is not that rank: it drops the place, size and progress page of the
 * environment. Call it before a client is opened, and after the flags were read. */
void mst_cli_forget_place(void);

/* Reads the secret that --secret-file or --secret-fd names; size 0: neither does. OK, or an exit
 * code after one line. */
int mst_cli_secret(const struct mst_cli *cli, struct mst_secret *out);

/* The same for a client, which reads the secret itself. */
void mst_cli_pass_secret(const struct mst_cli *cli, struct muster_client_options *options);

/* Sets address and secret, which the client borrows. A secret of the user goes before that of the
 * job. */
void mst_cli_reach(const struct mst_cli *cli, const struct mst_cli_place *place,
                   struct muster_client_options *options);

/* mst_cli_locate, and a session without membership. Both within --timeout. */
int mst_cli_observe(const struct mst_cli *cli, muster_client **out, struct mst_cli_place *place);

#endif
