#!/usr/bin/env python3
"""Writes a GGUF file's weights as plain floats, so that engines can be benched on the same values.

usage: gguf_to_f32.py MODEL.gguf OUT.gguf [f32|f16|bf16]

Matrices become the type that is named (f32 if none is), vectors f32; all else is taken over as it
is. Needs benches/requirements.txt.
"""

import sys

import numpy
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType
from gguf.quants import dequantize, quantize

TYPES = {
    "f32": (GGMLQuantizationType.F32, LlamaFileType.ALL_F32),
    "f16": (GGMLQuantizationType.F16, LlamaFileType.MOSTLY_F16),
    "bf16": (GGMLQuantizationType.BF16, LlamaFileType.MOSTLY_BF16),
}
# Written by the writer itself, or by us.
OWN = ("GGUF.", "general.architecture", "general.file_type", "general.quantization_version")


def main(source, target, word="f32"):
    if word not in TYPES:
        sys.exit(f"{word}: none of {', '.join(TYPES)}")
    dtype, file_type = TYPES[word]
    reader = GGUFReader(source)
    writer = GGUFWriter(target, reader.fields["general.architecture"].contents())
    writer.add_file_type(file_type)
    for name, field in reader.fields.items():
        if name.startswith(OWN):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, sub_type=inner)
    for tensor in reader.tensors:
        weight = dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
        into = dtype if weight.ndim > 1 else GGMLQuantizationType.F32
        if into == GGMLQuantizationType.F32:
            writer.add_tensor(tensor.name, numpy.ascontiguousarray(weight))
        else:
            writer.add_tensor(tensor.name, quantize(weight, into), raw_dtype=into)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(target)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
