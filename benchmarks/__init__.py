"""Speed, as ratios against a plain reference in the same run: `python -m benchmarks`."""
