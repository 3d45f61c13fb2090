"""Reads a Parquet file with a reader that is not ours and prints it as JSON.

{"types": {column: [type, nullable]}, "row_groups": n, "compression": […], "rows": [{…}, …]}
"""

import json
import sys

import pyarrow.parquet

file = pyarrow.parquet.ParquetFile(sys.argv[1])
metadata = file.metadata
groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
print(
    json.dumps(
        {
            "types": {f.name: [str(f.type), f.nullable] for f in file.schema_arrow},
            "row_groups": len(groups),
            "compression": sorted(
                {g.column(i).compression for g in groups for i in range(g.num_columns)}
            ),
            "rows": file.read().to_pylist(),
        }
    )
)
