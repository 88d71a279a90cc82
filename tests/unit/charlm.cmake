# SPDX-License-Identifier: Apache-2.0
if(TARGET charlm_parts)
    mst_test(charlm_test SOURCES charlm_test.c LINK charlm_parts)
    mst_test(charlm_checkpoint_test SOURCES charlm_checkpoint_test.c LINK charlm_parts)
endif()
