/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static void put_name(const char *name)
{
    for (; *name; name++) {
        mst_cli_put("%c", *name == '_' ? '-' : *name);
    }
}

static const char *kind_of(const struct mst_setting *row)
{
    switch (row->unit) {
    case MST_UNIT_MS:
        return " DURATION";
    case MST_UNIT_BYTES:
        return " SIZE";
    case MST_UNIT_COUNT:
    case MST_UNIT_INDEX:
    case MST_UNIT_SIGNAL:
        return " N";
    case MST_UNIT_TEXT:
        return row->choices ? row->choices : " TEXT";
    case MST_UNIT_CHOICE:
        return " WORD";
    case MST_UNIT_FLAG:
        break;
    }
    return "";
}

static void put_size(int64_t bytes)
{
    static const char units[] = "kmg";
    size_t unit = 0;

    while (bytes % 1024 == 0 && bytes >= 1024 && unit < sizeof units - 1) {
        bytes /= 1024;
        unit++;
    }
    mst_cli_put(" (default %lld%.*s)", (long long)bytes, unit > 0 ? 1 : 0,
                units + (unit > 0 ? unit - 1 : 0));
}

static void put_default(const struct mst_setting *row)
{
    if (row->unit == MST_UNIT_CHOICE) {
        mst_cli_put(" (%s; default %s)", row->choices, row->standard_text);
    } else if (row->unit == MST_UNIT_BYTES) {
        put_size(row->standard);
    } else if (row->unit == MST_UNIT_MS && row->standard > 0 && row->standard % 1000 == 0) {
        mst_cli_put(" (default %llds)", (long long)row->standard / 1000);
    } else if (row->unit != MST_UNIT_FLAG && row->standard_text && *row->standard_text &&
               row->standard >= 0) {
        mst_cli_put(" (default %s)", row->standard_text);
    } else if (row->unit == MST_UNIT_FLAG && row->standard != 0) {
        mst_cli_put(" (default on: --no-");
        put_name(row->name);
        mst_cli_put(")");
    }
}

static void put_flag(const struct mst_cli_value *value)
{
    const char *kind = kind_of(value->row);
    int width = (int)(strlen(value->row->name) + strlen(kind));

    if (value->letter) {
        mst_cli_put("  -%c, --", value->letter);
    } else {
        mst_cli_put("      --");
    }
    put_name(value->row->name);
    mst_cli_put("%s%*s  %s", kind, width < 28 ? 28 - width : 0, "", value->row->help);
    put_default(value->row);
    mst_cli_put("\n");
}

static void put_flags(const struct mst_cli *cli, bool settings)
{
    for (size_t i = 0; i < cli->value_count; i++) {
        if ((cli->values[i].row->scope != 0) == settings) {
            put_flag(&cli->values[i]);
        }
    }
}

static bool has_settings(const struct mst_cli *cli)
{
    for (size_t i = 0; i < cli->value_count; i++) {
        if (cli->values[i].row->scope != 0) {
            return true;
        }
    }
    return false;
}

void mst_cli_help(const struct mst_cli *cli)
{
    const struct mst_cli_command *command = cli->command;

    mst_cli_put("usage: muster %s [flags]%s%s\n\n%s\n", command->name,
                *command->arguments ? " " : "", command->arguments, command->summary);
    if (command->details) {
        mst_cli_put("\n%s", command->details);
    }
    mst_cli_put("\nflags:\n");
    put_flags(cli, false);
    mst_cli_put("  -h, --help%*s  this text\n", 24, "");
    if (has_settings(cli)) {
        mst_cli_put("\nsettings (also from the environment, --some-name as MUSTER_SOME_NAME):\n");
        put_flags(cli, true);
    }
    mst_cli_put("\nexample:\n%s", command->example);
}

void mst_cli_help_all(void)
{
    mst_cli_put("usage: muster COMMAND [flags] [arguments]\n\n"
                "keeps a distributed job alive: who is here, who is lost, and on with the rest\n\n"
                "commands:\n");
    for (size_t i = 0; i < mst_cli_command_count; i++) {
        mst_cli_put("  %-9s %s\n", mst_cli_commands[i]->name, mst_cli_commands[i]->summary);
    }
    mst_cli_put(
        "\n'muster COMMAND --help' says more. 'muster --version' prints the version.\n"
        "Exit codes: 0 done, 1 failed, 2 wrong usage, 124 a deadline passed; 'muster run' has "
        "more.\n");
}
