/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/programs.h"

#include <stdlib.h>
#include <string.h>

#include "cli/devices.h"
#include "cli/help.h"
#include "cli/program.h"

#define NPROC_MAX 65536u

int mst_cli_nproc(const struct mst_cli *cli, const char *text, uint32_t *out)
{
    bool is_auto = strcmp(text, "auto") == 0, gpus = is_auto || strcmp(text, "gpu") == 0;
    unsigned found = gpus ? mst_devices_gpus("") : 0;
    char *end = NULL;
    unsigned long number = strtoul(text, &end, 10);

    if (strcmp(text, "gpu") == 0 && found == 0) {
        return mst_cli_usage(cli, "--nproc-per-node gpu: there is no GPU here that a process may "
                                  "use; cpu counts the processors");
    }
    if (strcmp(text, "cpu") == 0 || (is_auto && found == 0)) {
        found = mst_devices_cpus();
    } else if (!gpus && (*end != '\0' || number < 1 || number > NPROC_MAX)) {
        return mst_cli_usage(
            cli, "--nproc-per-node %s: expected a number from 1 to %u, cpu, gpu or auto", text,
            NPROC_MAX);
    } else if (!gpus) {
        found = (unsigned)number;
    }
    *out = found < NPROC_MAX ? found : NPROC_MAX;
    return MST_CLI_OK;
}

static bool ends(char *const *word)
{
    return *word == NULL || (strcmp(*word, ":") == 0 && word[1] != NULL);
}

static uint32_t count(char *const *words)
{
    uint32_t count = 1;

    for (; *words != NULL; words++) {
        count += ends(words);
    }
    return count;
}

static int refuse_flag(const struct mst_cli *cli, const char *flag)
{
    return mst_cli_usage(cli,
                         "%.*s after ':': only -n and -m may differ between programs; put it "
                         "before the first one",
                         (int)strcspn(flag, "="), flag);
}

/* One that is another launcher's, and no flag of ours; NULL: there is none. */
static const char *foreign(const struct mst_cli *own)
{
    if (own->exported != NULL) {
        return "-x";
    }
    return own->redirects ? "--redirects" : own->alone;
}

/* `words`: one program but the first, with its flags. */
static int take(const struct mst_cli *cli, char **words, struct mst_run_program *out)
{
    struct mst_cli own;
    int code = mst_cli_parse(&own, cli->command, words);
    size_t size = 0;

    out->count = 1;
    if (code < 0) {
        code = mst_cli_usage(cli, "--help stands before the first program");
    }
    for (size_t i = 0; i < own.value_count && code == MST_CLI_OK; i++) {
        const struct mst_cli_value *value = &own.values[i];

        if (value->typed && strcmp(value->row->name, "nproc") == 0) {
            out->count = (uint32_t)value->number;
        } else if (value->typed && strcmp(value->row->name, "nproc_per_node") == 0) {
            code = mst_cli_nproc(cli, value->text, &out->count);
        } else if (value->typed && strcmp(value->row->name, "module") != 0) {
            char flag[64] = "--";

            mst_cli_flag_name(value->row->name, flag + 2, sizeof flag - 2);
            code = refuse_flag(cli, flag);
        }
    }
    if (code == MST_CLI_OK && foreign(&own) != NULL) {
        code = refuse_flag(cli, foreign(&own));
    }
    while (words[size] != NULL) {
        size++;
    }
    out->arguments = words + size - own.argument_count;
    if (code == MST_CLI_OK && own.argument_count == 0) {
        code = mst_cli_usage(cli, "the program after ':' is missing, as in : -n 4 -- PROGRAM");
    }
    if (code == MST_CLI_OK) {
        code = mst_cli_program_take(cli, mst_cli_number(&own, "module") != 0, out);
    }
    mst_cli_release(&own);
    return code;
}

int mst_cli_programs(const struct mst_cli *cli, struct mst_run_options *options)
{
    char **words = cli->arguments;
    int code = MST_CLI_OK;

    options->program_count = count(words);
    options->programs = calloc(options->program_count, sizeof *options->programs);
    if (options->programs == NULL) {
        return mst_cli_fail(cli, "out of memory");
    }
    if (options->program_count > 1 && ends(words)) {
        return mst_cli_usage(cli, "the program before ':' is missing, as in -n 1 -- PROGRAM : ...");
    }
    if (options->nproc == 0 && (options->join == NULL || options->program_count > 1)) {
        options->nproc = 1;
    }
    options->programs[0].count = options->nproc;
    for (uint32_t i = 0; i < options->program_count && code == MST_CLI_OK; i++) {
        struct mst_run_program *program = &options->programs[i];
        char **own = words;

        while (!ends(words)) {
            words++;
        }
        if (*words != NULL) {
            *words++ = NULL; /* the ':' */
        }
        program->arguments = own;
        if (i > 0) {
            code = take(cli, own, program);
            options->nproc += program->count;
        } else {
            code = mst_cli_program_take(cli, mst_cli_number(cli, "module") != 0, program);
        }
    }
    return code;
}

void mst_cli_programs_free(struct mst_run_options *options)
{
    for (uint32_t i = 0; options->programs != NULL && i < options->program_count; i++) {
        free(options->programs[i].made);
    }
    free(options->programs);
    options->programs = NULL;
}
