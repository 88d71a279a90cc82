# SPDX-License-Identifier: Apache-2.0
# The bytes of IN as the array NAME of the header OUT.
file(READ ${IN} bytes HEX)
string(REGEX REPLACE "(................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "static const unsigned char ${NAME}[] = {\n${bytes}\n};\n")
