/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_OS_NOTIFY_H
#define MST_OS_NOTIFY_H

/* What a service reports to the service manager that started it, as sd_notify(3) has it: one
 * datagram of lines NAME=VALUE to the socket in $NOTIFY_SOCKET. */

#include <stdbool.h>

/* "READY=1\nSTATUS=serving". Never waits. False with errno: it was not sent; without a service
 * manager nothing is to be sent, which is true. */
bool mst_notify(const char *lines);

#endif
