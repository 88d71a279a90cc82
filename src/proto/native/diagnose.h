/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_NATIVE_DIAGNOSE_H
#define MST_PROTO_NATIVE_DIAGNOSE_H

#include "base/slice.h"
#include "base/text.h"
#include "muster.pb-c.h"

/* protobuf-c says that a payload is malformed, not where. This walks it again and says it:
 * "no Request: write.ops.key, 12 bytes into the message: goes beyond the end with a length of 300".
 */
void mst_native_diagnose(struct mst_text *text, const ProtobufCMessageDescriptor *type,
                         struct mst_slice payload);

#endif
