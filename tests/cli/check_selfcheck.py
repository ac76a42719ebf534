"""Reads tamis selfcheck's lines and holds them to what the formats and the test model promise."""
import json
import sys

FILE_BITS = {"Q8_0": 8.54, "Q4_K": 4.68}  # within .02
RESIDENT_BITS = {("Q8_0", "planes"): 8.5, ("Q4_K", "planes"): 4.625, ("Q8_0", "affine"): 10, ("Q4_K", "affine"): 6}
ERRORS = {"Q8_0": (0.007, 0.009), "Q4_K": (0.055, 0.065)}  # of the textbook encoders

plain = {}
*lines, served = [json.loads(line) for line in sys.stdin]
for line in lines:
    kind = line["type"], line["layout"]
    low, high = ERRORS[line["type"]]
    if line["method"] == "fast":  # a search is better than the textbook
        low, high = 0, min(plain[line["type"], line["layout"]], high)
    else:
        plain[line["type"], line["layout"]] = line["relative_logit_error"]
    assert abs(line["file_bits_per_param"] - FILE_BITS[line["type"]]) <= 0.02, line
    assert abs(line["resident_bits_per_quantized_weight"] - RESIDENT_BITS[kind]) < 0.05, line
    assert low <= line["relative_logit_error"] <= high, line
    assert line["relative_logit_error_served"] < high + 0.003, line
    assert line["same_greedy_next_token"] is True, line
assert len(served["served_from_q4_k"]) == 8 and all(0 <= token < 512 for token in served["served_from_q4_k"]), served
print(*sorted(f"{line['type']} {line['method']} {line['layout']}" for line in lines), sep="\n")
