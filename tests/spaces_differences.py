"""How two architectures of a space differ."""


def edges_changed(one, other):
    """none, operation or input: the one mutation that leads from one to the other; anything more is an error."""
    found = []
    for mine, theirs in zip(one.cells, other.cells, strict=True):
        for node, changed in zip(mine, theirs, strict=True):
            if node == changed:
                continue
            sources, others = ({source for _, source in edges} for edges in (node, changed))
            if sources == others:
                assert sum(a != b for a, b in zip(node, changed, strict=True)) == 1
                found.append("operation")
            else:
                assert len(sources & others) == len(sources) - 1
                assert sorted(op for op, _ in node) == sorted(op for op, _ in changed)
                found.append("input")
    assert len(found) <= 1
    return found[0] if found else "none"
