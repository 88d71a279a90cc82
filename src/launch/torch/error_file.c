/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/torch/error_file.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

int mst_error_file_new(void)
{
    return memfd_create("muster-error", MFD_CLOEXEC);
}

void mst_error_file_path(int fd, char *path, size_t room)
{
    (void)snprintf(path, room, "/proc/%d/fd/%d", (int)getpid(), fd);
}

/* "message" is the text, or an object with the text and the call stack. */
static const char *message_of(const json_t *file)
{
    const json_t *message = json_object_get(file, "message");

    if (json_is_object(message)) {
        message = json_object_get(message, "message");
    }
    return json_string_value(message);
}

bool mst_error_file_message(const char *bytes, size_t size, char *text, size_t room)
{
    json_t *file = json_loadb(bytes, size, 0, NULL);
    const char *message = message_of(file);

    text[0] = '\0';
    if (message != NULL) { /* the first line says what, the others say what might help */
        message += strspn(message, "\n");
        mst_text_print(text, room, "%.*s", (int)strcspn(message, "\n"), message);
    }
    json_decref(file);
    return text[0] != '\0';
}

bool mst_error_file_read(int fd, char *text, size_t room)
{
    char *bytes = malloc(MST_ERROR_FILE_BYTES_MAX);
    struct stat is;
    ssize_t size = -1;
    bool found = false;

    text[0] = '\0';
    if (bytes != NULL && fstat(fd, &is) == 0 && S_ISREG(is.st_mode) && is.st_size > 0 &&
        is.st_size <= (off_t)MST_ERROR_FILE_BYTES_MAX) {
        size = pread(fd, bytes, MST_ERROR_FILE_BYTES_MAX, 0);
    }
    if (size > 0) {
        found = mst_error_file_message(bytes, (size_t)size, text, room);
    }
    free(bytes);
    return found;
}
