/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LIB_ENVIRONMENT_H
#define MST_LIB_ENVIRONMENT_H

/* MUSTER_<NAME>, or NULL when it is not set or empty. Borrowed from the environment. */
const char *mst_lib_setting_text(const char *name);

#endif
