/* SPDX-License-Identifier: Apache-2.0 */

/* A library with the name of OpenSSL's, and nothing of it. */
__attribute__((visibility("default"))) extern const int not_openssl;
const int not_openssl = 1;
