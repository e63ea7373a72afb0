"""Kernels of a DARTS cell whose operations and inputs are data: one program text serves every architecture.

Each node takes two states, an operation on each: a slot. `plan` (paths, slots, 2) holds source and code of every
slot; slot 2n + s is the s-th of node n. Codes: −1 nothing, 0 skip, 1 max pool, 2 mean pool, 3 and 4 separable (3×3,
5×5), 5 and 6 dilated; pools are normalised too. States lie in one stretch, the arena: both inputs (paths, pixels,
width), then the cell's output (paths, pixels, nodes × width), in which every node has its channels. In a reduction
cell the inputs have twice the height and width, and operations on them stride 2. Width is channels × parts: the first
part of a state goes through the operation, the rest passes by, and channel c of part p comes out at c · parts + p.
`table` says where the weights of each (edge, code) begin in the cell's row of weights.

    forward    for each node: first units → finish; second units → finish; deliver the node's state
    backward   for each node, from the last: sums → finish → second units; sums → finish → first units;
               gather the gradient of the state before it; scatter the weights' gradients
"""

import triton
import triton.language as tl


@triton.jit
def _place(table, node, source, code):
    """Where the weights of an operation on the edge from a state to a node begin."""
    place = tl.load(table + (node * (node + 3) // 2 + source) * 7 + tl.maximum(code, 0))
    return tl.multiple_of(place, 8)  # as the number of channels is


@triton.jit
def _widened(x, BLOCK: tl.constexpr, C: tl.constexpr, WIDE: tl.constexpr):
    """(BLOCK, C) with zeros behind its channels: a product takes 16 or more."""
    if WIDE > C:
        x = tl.reshape(tl.permute(tl.join(x, tl.zeros_like(x)), (0, 2, 1)), [BLOCK, WIDE])
    return x


@triton.jit
def _start(source, path, paths, own, pixels, WIDTH_: tl.constexpr, NODES: tl.constexpr):
    """Where a state begins in the arena; `own` and `pixels` count those of an input and of a node."""
    first = (source * paths + path).to(tl.int64) * own * WIDTH_
    later = (
        (2 * paths).to(tl.int64) * own * WIDTH_ + path.to(tl.int64) * pixels * NODES * WIDTH_ + (source - 2) * WIDTH_
    )
    return tl.where(source < 2, first, later)


@triton.jit
def _reduces(code, source, STRIDE: tl.constexpr):
    """Whether a slot hands on by a factorized reduction."""
    return (code == 0) & (source < 2) & (STRIDE == 2)


@triton.jit
def _normalised(code, source, STRIDE: tl.constexpr):
    """Whether a slot has a first unit, which BatchNorm follows: all but handing on as it is."""
    return (code >= 1) | _reduces(code, source, STRIDE)


@triton.jit(do_not_specialize=["node"])
def first(arena, plan, table, weights, raw, picks, sums, splits, own, pixels, node,
          HEIGHT: tl.constexpr, WIDTH: tl.constexpr, STRIDE: tl.constexpr, NODES: tl.constexpr, C: tl.constexpr,
          PARTS: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """First units of a node's two slots, pools among them: raw outputs, sums and sums of squares.

    `picks`: where a maximum was.
    """
    split, path, paths = tl.program_id(0), tl.program_id(2), tl.num_programs(2)
    slot = 2 * node + tl.program_id(1)
    source = tl.load(plan + (path * 2 * NODES + slot) * 2)
    code = tl.load(plan + (path * 2 * NODES + slot) * 2 + 1)
    reduces = _reduces(code, source, STRIDE)
    if _normalised(code, source, STRIDE):
        weight = weights + _place(table, node, source, code)
        x = arena + _start(source, path, paths, own, pixels, C * PARTS, NODES)
        row = tl.where(source < 2, C * PARTS, C * PARTS * NODES)
        stride = tl.where(source < 2, STRIDE, 1)
        high, wide = HEIGHT * stride, WIDTH * stride  # of the source
        kernel = tl.where((code == 3) | (code == 5), 3, 5)
        dilation = tl.where(code >= 5, 2, 1)
        place = slot * paths + path
        channel, own_channel = tl.arange(0, WIDE), tl.arange(0, C)
        known = channel < C
        both = known[None, :] & known[:, None]
        pools = (code == 1) | (code == 2)
        both = (channel < tl.where(pools, 0, C))[:, None] & both
        mixed = tl.where(reduces, 0, C * kernel * kernel)
        mixing = tl.load(weight + mixed + channel[None, :] * C + channel[:, None], mask=both, other=0.0)  # in × out
        mixing = mixing.to(arena.dtype.element_ty)
        total = tl.zeros([WIDE], tl.float32)
        square = tl.zeros([WIDE], tl.float32)
        for block in range(split, (pixels + BLOCK - 1) // BLOCK, splits):
            pixel = block * BLOCK + tl.arange(0, BLOCK)
            here = (pixel < pixels)[:, None] & known[None, :]
            image, line, column = pixel // (HEIGHT * WIDTH), (pixel // WIDTH) % HEIGHT, pixel % WIDTH
            if reduces:
                spot = ((image * high + line * 2) * wide + column * 2)[:, None] * row + channel[None, :]
                even = tl.maximum(tl.load(x + spot, mask=here, other=0.0).to(tl.float32), 0.0)
                odd = tl.maximum(tl.load(x + spot + (wide + 1) * row, mask=here, other=0.0).to(tl.float32), 0.0)
                out = tl.where(
                    (channel < C // 2)[None, :],
                    tl.dot(even.to(arena.dtype.element_ty), mixing, input_precision=PRECISION),
                    tl.dot(odd.to(arena.dtype.element_ty), mixing, input_precision=PRECISION),
                )
            elif pools:
                best = tl.full([BLOCK, WIDE], float("-inf"), tl.float32)
                mean = tl.zeros([BLOCK, WIDE], tl.float32)
                pick = tl.zeros([BLOCK, WIDE], tl.int32)
                count = tl.zeros([BLOCK], tl.float32)
                for tap in range(9):
                    down, right = line * stride + tap // 3 - 1, column * stride + tap % 3 - 1
                    there = (pixel < pixels) & (down >= 0) & (down < high) & (right >= 0) & (right < wide)
                    spot = ((image * high + down) * wide + right)[:, None] * row + channel[None, :]
                    value = tl.load(x + spot, mask=there[:, None] & known[None, :], other=0.0).to(tl.float32)
                    mean += value
                    count += there.to(tl.float32)
                    better = there[:, None] & (value > best)
                    best = tl.where(better, value, best)
                    pick = tl.where(better, tap, pick)
                if code == 1:
                    at = place.to(tl.int64) * pixels * C + pixel[:, None] * C + channel[None, :]
                    tl.store(picks + at, pick.to(tl.int8), mask=here)
                    out = tl.where(here, best, 0.0)
                else:
                    out = mean / tl.maximum(count, 1.0)[:, None]
            else:
                inner = tl.zeros([BLOCK, C], tl.float32)
                for tap in range(kernel * kernel):
                    down = line * stride + (tap // kernel - kernel // 2) * dilation
                    right = column * stride + (tap % kernel - kernel // 2) * dilation
                    there = (pixel < pixels) & (down >= 0) & (down < high) & (right >= 0) & (right < wide)
                    spot = ((image * high + down) * wide + right)[:, None] * row + own_channel[None, :]
                    value = tl.load(x + spot, mask=there[:, None], other=0.0).to(tl.float32)
                    inner += tl.maximum(value, 0.0) * tl.load(weight + tap * C + own_channel)[None, :]
                inner = _widened(inner.to(arena.dtype.element_ty), BLOCK, C, WIDE)
                out = tl.dot(inner, mixing, input_precision=PRECISION)
            at = place.to(tl.int64) * pixels * C + pixel[:, None] * C + channel[None, :]
            tl.store(raw + at, out.to(raw.dtype.element_ty), mask=here)
            total += tl.sum(out, 0)
            square += tl.sum(out * out, 0)
        at = (place * splits + split) * 2 * C + channel
        tl.store(sums + at, total, mask=known)
        tl.store(sums + at + C, square, mask=known)


@triton.jit(do_not_specialize=["node"])
def second(raw, statistics, plan, table, weights, out, sums, splits, pixels, node, HEIGHT: tl.constexpr,
           WIDTH: tl.constexpr, NODES: tl.constexpr, C: tl.constexpr, WIDE: tl.constexpr,
           BLOCK: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Second units of separable slots, which normalise what the first ones made."""
    split, path, paths = tl.program_id(0), tl.program_id(2), tl.num_programs(2)
    slot = 2 * node + tl.program_id(1)
    source = tl.load(plan + (path * 2 * NODES + slot) * 2)
    code = tl.load(plan + (path * 2 * NODES + slot) * 2 + 1)
    if (code == 3) | (code == 4):
        kernel = tl.where(code == 3, 3, 5)
        weight = weights + _place(table, node, source, code) + (kernel * kernel + C) * C
        place = slot * paths + path
        x = raw + place.to(tl.int64) * pixels * C
        channel, own_channel = tl.arange(0, WIDE), tl.arange(0, C)
        known = channel < C
        both = known[None, :] & known[:, None]
        mean = tl.load(statistics + place * 2 * C + own_channel)[None, :]
        scale = tl.load(statistics + place * 2 * C + C + own_channel)[None, :]
        mixing = tl.load(weight + C * kernel * kernel + channel[None, :] * C + channel[:, None], mask=both, other=0.0)
        total = tl.zeros([WIDE], tl.float32)
        square = tl.zeros([WIDE], tl.float32)
        for block in range(split, (pixels + BLOCK - 1) // BLOCK, splits):
            pixel = block * BLOCK + tl.arange(0, BLOCK)
            line, column = (pixel // WIDTH) % HEIGHT, pixel % WIDTH
            inner = tl.zeros([BLOCK, C], tl.float32)
            for tap in range(kernel * kernel):
                down, right = tap // kernel - kernel // 2, tap % kernel - kernel // 2
                there = (pixel < pixels) & (line + down >= 0) & (line + down < HEIGHT)
                there = there & (column + right >= 0) & (column + right < WIDTH)
                spot = (pixel + down * WIDTH + right)[:, None] * C + own_channel[None, :]
                value = tl.load(x + spot, mask=there[:, None], other=0.0).to(tl.float32)
                value = tl.where(there[:, None], tl.maximum((value - mean) * scale, 0.0), 0.0)
                inner += value * tl.load(weight + tap * C + own_channel)[None, :]
            inner = _widened(inner.to(raw.dtype.element_ty), BLOCK, C, WIDE)
            made = tl.dot(inner, mixing.to(raw.dtype.element_ty), input_precision=PRECISION)
            at = place.to(tl.int64) * pixels * C + pixel[:, None] * C + channel[None, :]
            tl.store(out + at, made.to(out.dtype.element_ty), mask=(pixel < pixels)[:, None] & known[None, :])
            total += tl.sum(made, 0)
            square += tl.sum(made * made, 0)
        at = (place * splits + split) * 2 * C + channel
        tl.store(sums + at, total, mask=known)
        tl.store(sums + at + C, square, mask=known)


@triton.jit(do_not_specialize=["node", "unit"])
def finish(sums, statistics, plan, splits, pixels, node, unit, eps, STRIDE: tl.constexpr, NODES: tl.constexpr,
           C: tl.constexpr, FORWARD: tl.constexpr, CHUNK: tl.constexpr):  # fmt: skip
    """Add up what the splits found, for the slots that have the unit: mean and 1/deviation, or two means."""
    path, paths = tl.program_id(1), tl.num_programs(1)
    slot = 2 * node + tl.program_id(0)
    source = tl.load(plan + (path * 2 * NODES + slot) * 2)
    code = tl.load(plan + (path * 2 * NODES + slot) * 2 + 1)
    has = ((unit == 1) & _normalised(code, source, STRIDE)) | ((unit == 2) & ((code == 3) | (code == 4)))
    if has:
        channel = tl.arange(0, C)
        place = slot * paths + path
        one = tl.zeros([C], tl.float32)
        two = tl.zeros([C], tl.float32)
        for begin in range(0, splits, CHUNK):
            split = begin + tl.arange(0, CHUNK)
            at = (place * splits + split)[:, None] * 2 * C + channel[None, :]
            one += tl.sum(tl.load(sums + at, mask=(split < splits)[:, None], other=0.0), 0)
            two += tl.sum(tl.load(sums + at + C, mask=(split < splits)[:, None], other=0.0), 0)
        one, two = one / pixels, two / pixels
        if FORWARD:
            two = tl.rsqrt(tl.maximum(two - one * one, 0.0) + eps)
        tl.store(statistics + place * 2 * C + channel, one)
        tl.store(statistics + place * 2 * C + C + channel, two)


@triton.jit(do_not_specialize=["node"])
def deliver(arena, plan, raw1, statistics1, raw2, statistics2, own, pixels, node, HEIGHT: tl.constexpr,
            WIDTH: tl.constexpr, STRIDE: tl.constexpr, NODES: tl.constexpr, C: tl.constexpr, PARTS: tl.constexpr,
            BLOCK: tl.constexpr):  # fmt: skip
    """A node's state: the sum of its two slots, with the channels that pass by."""
    path, paths = tl.program_id(1), tl.num_programs(1)
    channel = tl.arange(0, C)
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (pixel < pixels)[:, None]
    image, line, column = pixel // (HEIGHT * WIDTH), (pixel // WIDTH) % HEIGHT, pixel % WIDTH
    target = arena + _start(node + 2, path, paths, own, pixels, C * PARTS, NODES)
    target += pixel[:, None] * (C * PARTS * NODES) + channel[None, :] * PARTS
    for part in tl.static_range(PARTS):
        out = tl.zeros([BLOCK, C], tl.float32)
        for which in range(2):
            slot = 2 * node + which
            source = tl.load(plan + (path * 2 * NODES + slot) * 2)
            code = tl.load(plan + (path * 2 * NODES + slot) * 2 + 1)
            x = arena + _start(source, path, paths, own, pixels, C * PARTS, NODES) + part * C
            row = tl.where(source < 2, C * PARTS, C * PARTS * NODES)
            stride = tl.where(source < 2, STRIDE, 1)
            high, wide = HEIGHT * stride, WIDTH * stride
            spot = ((image * high + line * stride) * wide + column * stride)[:, None] * row + channel[None, :]
            if part > 0:
                value = tl.load(x + spot, mask=inside, other=0.0).to(tl.float32)
                if stride == 2:  # the maximum of 2×2
                    value = tl.maximum(value, tl.load(x + spot + row, mask=inside, other=0.0).to(tl.float32))
                    below = spot + wide * row
                    value = tl.maximum(value, tl.load(x + below, mask=inside, other=0.0).to(tl.float32))
                    value = tl.maximum(value, tl.load(x + below + row, mask=inside, other=0.0).to(tl.float32))
                out += value
            else:
                place = slot * paths + path
                at = place.to(tl.int64) * pixels * C + pixel[:, None] * C + channel[None, :]
                if (code == 3) | (code == 4):
                    mean = tl.load(statistics2 + place * 2 * C + channel)[None, :]
                    scale = tl.load(statistics2 + place * 2 * C + C + channel)[None, :]
                    out += (tl.load(raw2 + at, mask=inside, other=0.0).to(tl.float32) - mean) * scale
                if _normalised(code, source, STRIDE) & (code != 3) & (code != 4):
                    mean = tl.load(statistics1 + place * 2 * C + channel)[None, :]
                    scale = tl.load(statistics1 + place * 2 * C + C + channel)[None, :]
                    out += (tl.load(raw1 + at, mask=inside, other=0.0).to(tl.float32) - mean) * scale
                if (code == 0) & (stride == 1):
                    out += tl.load(x + spot, mask=inside, other=0.0).to(tl.float32)
        tl.store(target + part, out.to(arena.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["node", "unit"])
def slopes(gradients, middle, plan, raw, statistics, sums, splits, own, pixels, node, unit, STRIDE: tl.constexpr,
           NODES: tl.constexpr, C: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Sums for BatchNorm's backward pass of one unit: of the gradient, and of it times the output."""
    split, path, paths = tl.program_id(0), tl.program_id(2), tl.num_programs(2)
    slot = 2 * node + tl.program_id(1)
    source = tl.load(plan + (path * 2 * NODES + slot) * 2)
    code = tl.load(plan + (path * 2 * NODES + slot) * 2 + 1)
    two_units = (code == 3) | (code == 4)
    if ((unit == 1) & _normalised(code, source, STRIDE)) | ((unit == 2) & two_units):
        channel = tl.arange(0, C)
        place = slot * paths + path
        mean = tl.load(statistics + place * 2 * C + channel)[None, :]
        scale = tl.load(statistics + place * 2 * C + C + channel)[None, :]
        given = gradients + _start(node + 2, path, paths, own, pixels, C * PARTS, NODES)
        one = tl.zeros([C], tl.float32)
        two = tl.zeros([C], tl.float32)
        for block in range(split, (pixels + BLOCK - 1) // BLOCK, splits):
            pixel = (block * BLOCK + tl.arange(0, BLOCK))[:, None]
            inside = pixel < pixels
            at = place.to(tl.int64) * pixels * C + pixel * C + channel[None, :]
            if (unit == 1) & two_units:
                slope = tl.load(middle + at, mask=inside, other=0.0)
            else:
                slope = tl.load(given + pixel * (C * PARTS * NODES) + channel[None, :] * PARTS, mask=inside, other=0.0)
            value = (tl.load(raw + at, mask=inside, other=0.0).to(tl.float32) - mean) * scale
            one += tl.sum(slope.to(tl.float32), 0)
            two += tl.sum(slope.to(tl.float32) * value, 0)
        at = (place * splits + split) * 2 * C + channel
        tl.store(sums + at, one)
        tl.store(sums + at + C, two)


@triton.jit(do_not_specialize=["node", "unit"])
def back(arena, gradients, middle, plan, table, weights, raw1, statistics1, raw, statistics, means, inner_slopes, parts,
         splits, own, pixels, node, unit, length, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, STRIDE: tl.constexpr,
         NODES: tl.constexpr, C: tl.constexpr, PARTS: tl.constexpr, WIDE: tl.constexpr, TAPS: tl.constexpr,
         BLOCK: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """One unit: the gradient by its depthwise output (of a reduction or a pool: by its raw output), and by its weights.

    `parts` (splits, slots × paths, length) holds each split's share of the gradients by an operation's weights.
    """
    split, path, paths = tl.program_id(0), tl.program_id(2), tl.num_programs(2)
    slot = 2 * node + tl.program_id(1)
    source = tl.load(plan + (path * 2 * NODES + slot) * 2)
    code = tl.load(plan + (path * 2 * NODES + slot) * 2 + 1)
    reduces = _reduces(code, source, STRIDE)
    two_units = (code == 3) | (code == 4)
    if ((unit == 1) & _normalised(code, source, STRIDE)) | ((unit == 2) & two_units):
        place = slot * paths + path
        later = unit == 2
        kernel = tl.where((code == 3) | (code == 5), 3, 5)
        pools = (code == 1) | (code == 2)
        kernel = tl.where(reduces | pools, 0, kernel)
        dilation = tl.where(code >= 5, 2, 1)
        skipped = tl.where(later, (kernel * kernel + C) * C, 0)
        weight = weights + _place(table, node, source, code) + skipped
        part = parts + (split * 2 * NODES * paths + place).to(tl.int64) * length + skipped
        stride = tl.where((source < 2) & (unit == 1), STRIDE, 1)
        high, wide = HEIGHT * stride, WIDTH * stride
        row = tl.where(source < 2, C * PARTS, C * PARTS * NODES)
        x = arena + _start(source, path, paths, own, pixels, C * PARTS, NODES)
        x1 = raw1 + place.to(tl.int64) * pixels * C
        given = gradients + _start(node + 2, path, paths, own, pixels, C * PARTS, NODES)
        channel = tl.arange(0, WIDE)
        known = channel < C
        both = known[None, :] & known[:, None]
        mean = tl.load(statistics + place * 2 * C + channel, mask=known, other=0.0)[None, :]
        scale = tl.load(statistics + place * 2 * C + C + channel, mask=known, other=0.0)[None, :]
        one = tl.load(means + place * 2 * C + channel, mask=known, other=0.0)[None, :]
        two = tl.load(means + place * 2 * C + C + channel, mask=known, other=0.0)[None, :]
        mean1 = tl.load(statistics1 + place * 2 * C + channel, mask=known, other=0.0)[None, :]
        scale1 = tl.load(statistics1 + place * 2 * C + C + channel, mask=known, other=0.0)[None, :]
        weighted = (channel < tl.where(pools, 0, C))[:, None] & both
        mixed = weight + C * kernel * kernel + channel[:, None] * C + channel[None, :]
        mixing = tl.load(mixed, mask=weighted, other=0.0)
        mixing = mixing.to(arena.dtype.element_ty)  # out × in
        by_mixing = tl.zeros([WIDE, WIDE], tl.float32)
        by_taps = tl.zeros([TAPS, WIDE], tl.float32)
        for block in range(split, (pixels + BLOCK - 1) // BLOCK, splits):
            pixel = block * BLOCK + tl.arange(0, BLOCK)
            here = (pixel < pixels)[:, None] & known[None, :]
            image, line, column = pixel // (HEIGHT * WIDTH), (pixel // WIDTH) % HEIGHT, pixel % WIDTH
            at = place.to(tl.int64) * pixels * C + pixel[:, None] * C + channel[None, :]
            if (unit == 1) & two_units:
                slope = tl.load(middle + at, mask=here, other=0.0).to(tl.float32)
            else:
                far = pixel[:, None] * (C * PARTS * NODES) + channel[None, :] * PARTS
                slope = tl.load(given + far, mask=here, other=0.0).to(tl.float32)
            value = (tl.load(raw + at, mask=here, other=0.0).to(tl.float32) - mean) * scale
            by_raw = tl.where(here, scale * (slope - one - value * two), 0.0)
            if pools:
                tl.store(inner_slopes + at, by_raw.to(inner_slopes.dtype.element_ty), mask=here)
            elif reduces:
                tl.store(inner_slopes + at, by_raw.to(inner_slopes.dtype.element_ty), mask=here)
                spot = ((image * high + line * 2) * wide + column * 2)[:, None] * row + channel[None, :]
                even = tl.maximum(tl.load(x + spot, mask=here, other=0.0).to(tl.float32), 0.0)
                odd = tl.maximum(tl.load(x + spot + (wide + 1) * row, mask=here, other=0.0).to(tl.float32), 0.0)
                half = (channel < C // 2)[None, :]
                low = tl.trans(tl.where(half, by_raw, 0.0)).to(arena.dtype.element_ty)
                up = tl.trans(tl.where(half, 0.0, by_raw)).to(arena.dtype.element_ty)
                by_mixing = tl.dot(low, even.to(arena.dtype.element_ty), by_mixing, input_precision=PRECISION)
                by_mixing = tl.dot(up, odd.to(arena.dtype.element_ty), by_mixing, input_precision=PRECISION)
            else:
                inner = tl.dot(by_raw.to(arena.dtype.element_ty), mixing, input_precision=PRECISION)
                tl.store(inner_slopes + at, inner.to(inner_slopes.dtype.element_ty), mask=here)
                made = tl.zeros([BLOCK, WIDE], tl.float32)  # the depthwise output once more
                for tap in range(kernel * kernel):
                    down = line * stride + (tap // kernel - kernel // 2) * dilation
                    right = column * stride + (tap % kernel - kernel // 2) * dilation
                    there = (pixel < pixels) & (down >= 0) & (down < high) & (right >= 0) & (right < wide)
                    near = ((image * high + down) * wide + right)[:, None]
                    seen_mask = there[:, None] & known[None, :]
                    if later:
                        seen = tl.load(x1 + near * C + channel[None, :], mask=seen_mask, other=0.0).to(tl.float32)
                        seen = tl.where(there[:, None], (seen - mean1) * scale1, 0.0)
                    else:
                        seen = tl.load(x + near * row + channel[None, :], mask=seen_mask, other=0.0).to(tl.float32)
                    seen = tl.maximum(seen, 0.0)
                    depthwise = tl.load(weight + tap * C + channel, mask=known, other=0.0)
                    made += seen * depthwise[None, :]
                    by_taps += tl.where((tl.arange(0, TAPS) == tap)[:, None], tl.sum(seen * inner, 0)[None, :], 0.0)
                flipped = tl.trans(by_raw).to(arena.dtype.element_ty)
                by_mixing = tl.dot(flipped, made.to(arena.dtype.element_ty), by_mixing, input_precision=PRECISION)
        tl.store(part + C * kernel * kernel + channel[:, None] * C + channel[None, :], by_mixing, mask=weighted)
        taps = tl.arange(0, TAPS)
        real = (taps < kernel * kernel)[:, None] & known[None, :]
        tl.store(part + taps[:, None] * C + channel[None, :], by_taps, mask=real)


@triton.jit(do_not_specialize=["node"])
def between(raw1, statistics1, inner_slopes, plan, table, weights, out, pixels, node, HEIGHT: tl.constexpr,
            WIDTH: tl.constexpr, NODES: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """The gradient by what the first unit of a separable slot made, after its normalisation."""
    path, paths = tl.program_id(2), tl.num_programs(2)
    slot = 2 * node + tl.program_id(1)
    source = tl.load(plan + (path * 2 * NODES + slot) * 2)
    code = tl.load(plan + (path * 2 * NODES + slot) * 2 + 1)
    if (code == 3) | (code == 4):
        kernel = tl.where(code == 3, 3, 5)
        weight = weights + _place(table, node, source, code) + (kernel * kernel + C) * C
        place = slot * paths + path
        channel = tl.arange(0, C)
        pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        line, column = (pixel // WIDTH) % HEIGHT, pixel % WIDTH
        start = place.to(tl.int64) * pixels * C
        total = tl.zeros([BLOCK, C], tl.float32)
        for tap in range(kernel * kernel):
            up, left = line - tap // kernel + kernel // 2, column - tap % kernel + kernel // 2
            there = (pixel < pixels) & (up >= 0) & (up < HEIGHT) & (left >= 0) & (left < WIDTH)
            spot = (pixel + (up - line) * WIDTH + left - column)[:, None] * C + channel[None, :]
            slope = tl.load(inner_slopes + start + spot, mask=there[:, None], other=0.0).to(tl.float32)
            total += slope * tl.load(weight + tap * C + channel)[None, :]
        at = start + pixel[:, None] * C + channel[None, :]
        inside = (pixel < pixels)[:, None]
        mean = tl.load(statistics1 + place * 2 * C + channel)[None, :]
        value = tl.load(raw1 + at, mask=inside, other=0.0).to(tl.float32) - mean  # its scale is positive
        tl.store(out + at, tl.where(value > 0, total, 0.0).to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["state"])
def gather(arena, gradients, plan, table, weights, inner_slopes, picks, own, pixels, state, HEIGHT: tl.constexpr,
           WIDTH: tl.constexpr, STRIDE: tl.constexpr, NODES: tl.constexpr, C: tl.constexpr, PARTS: tl.constexpr,
           WIDE: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """The gradient by a state: what comes back along all slots that read it, added to what a node's has already."""
    path, paths = tl.program_id(1), tl.num_programs(1)
    stride = tl.where(state < 2, STRIDE, 1)
    high, wide = HEIGHT * stride, WIDTH * stride
    mine = tl.where(state < 2, own, pixels)
    row = tl.where(state < 2, C * PARTS, C * PARTS * NODES)
    channel = tl.arange(0, WIDE)
    known = (channel < C)[None, :]
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = (pixel < mine)[:, None] & known
    image, line, column = pixel // (high * wide), (pixel // wide) % high, pixel % wide
    start = _start(state, path, paths, own, pixels, C * PARTS, NODES)
    x = arena + start + pixel[:, None] * row + channel[None, :]
    out = gradients + start + pixel[:, None] * row + channel[None, :]
    for part in tl.static_range(PARTS):
        value = tl.load(x + part * C, mask=here, other=0.0).to(tl.float32)
        already = (pixel < tl.where(state < 2, 0, mine))[:, None] & known
        total = tl.load(out + part * C, mask=already, other=0.0).to(tl.float32)
        for slot in range(tl.maximum(2 * (state - 1), 0), 2 * NODES):
            source = tl.load(plan + (path * 2 * NODES + slot) * 2)
            code = tl.load(plan + (path * 2 * NODES + slot) * 2 + 1)
            if source == state:
                node = slot // 2
                place = slot * paths + path
                given = gradients + _start(node + 2, path, paths, own, pixels, C * PARTS, NODES) + part
                far = C * PARTS * NODES
                # The node's pixel of which this one is a part, where the stride is 2.
                there = here & (line // stride < HEIGHT)[:, None] & (column // stride < WIDTH)[:, None]
                over = (image * HEIGHT + line // stride) * WIDTH + column // stride
                if part > 0:
                    slope = tl.load(given + over[:, None] * far + channel[None, :] * PARTS, mask=there, other=0.0)
                    chosen = there
                    if stride == 2:  # this pixel was the first maximum of its 2×2
                        down, right = line % 2, column % 2
                        for other in range(4):
                            step = ((other // 2 - down) * wide + other % 2 - right)[:, None] * row
                            rival = tl.load(x + part * C + step, mask=there, other=0.0).to(tl.float32)
                            earlier = (other < down * 2 + right)[:, None]
                            chosen = chosen & ((value > rival) | ((value == rival) & (earlier == 0)))
                    total += tl.where(chosen, slope.to(tl.float32), 0.0)
                else:
                    kept = place.to(tl.int64) * pixels * C
                    reduces = _reduces(code, source, STRIDE)
                    weight = weights + _place(table, node, source, code)
                    if (code == 0) & (stride == 1):
                        slope = tl.load(given + pixel[:, None] * far + channel[None, :] * PARTS, mask=here, other=0.0)
                        total += slope.to(tl.float32)
                    if reduces:
                        both = known & (channel < C)[:, None]
                        mixing = tl.load(weight + channel[:, None] * C + channel[None, :], mask=both, other=0.0)
                        slope = tl.load(
                            inner_slopes + kept + over[:, None] * C + channel[None, :], mask=there, other=0.0
                        )
                        even = ((line % 2 == 0) & (column % 2 == 0))[:, None] & (channel < C // 2)[None, :]
                        odd = ((line % 2 == 1) & (column % 2 == 1))[:, None] & (channel >= C // 2)[None, :]
                        slope = tl.where(even | odd, slope.to(tl.float32), 0.0).to(arena.dtype.element_ty)
                        through = tl.dot(slope, mixing.to(arena.dtype.element_ty), input_precision=PRECISION)
                        total += tl.where(value > 0, through, 0.0)
                    if code >= 3:
                        kernel = tl.where((code == 3) | (code == 5), 3, 5)
                        dilation = tl.where(code >= 5, 2, 1)
                        through = tl.zeros([BLOCK, WIDE], tl.float32)
                        for tap in range(kernel * kernel):
                            up = line - (tap // kernel - kernel // 2) * dilation
                            left = column - (tap % kernel - kernel // 2) * dilation
                            fits = (pixel < mine) & (up >= 0) & (left >= 0) & (up % stride == 0) & (left % stride == 0)
                            fits = fits & (up // stride < HEIGHT) & (left // stride < WIDTH)
                            spot = ((image * HEIGHT + up // stride) * WIDTH + left // stride)[:, None] * C
                            slope = tl.load(
                                inner_slopes + kept + spot + channel[None, :], mask=fits[:, None] & known, other=0.0
                            )
                            depthwise = tl.load(weight + tap * C + channel, mask=channel < C, other=0.0)
                            through += slope.to(tl.float32) * depthwise[None, :]
                        total += tl.where(value > 0, through, 0.0)
                    if (code == 1) | (code == 2):
                        for tap in range(9):
                            up, left = line - tap // 3 + 1, column - tap % 3 + 1
                            fits = (pixel < mine) & (up >= 0) & (left >= 0) & (up % stride == 0) & (left % stride == 0)
                            fits = fits & (up // stride < HEIGHT) & (left // stride < WIDTH)
                            spot = (image * HEIGHT + up // stride) * WIDTH + left // stride
                            wanted = fits[:, None] & known
                            slope = tl.load(
                                inner_slopes + kept + spot[:, None] * C + channel[None, :], mask=wanted, other=0.0
                            )
                            slope = slope.to(tl.float32)
                            if code == 1:
                                pick = tl.load(
                                    picks + kept + spot[:, None] * C + channel[None, :], mask=wanted, other=0
                                )
                                total += tl.where(wanted & (pick == tap), slope, 0.0)
                            else:
                                tall = 3 - (up == 0).to(tl.int32) - (up == high - 1).to(tl.int32)
                                long = 3 - (left == 0).to(tl.int32) - (left == wide - 1).to(tl.int32)
                                total += tl.where(wanted, slope / (tall * long).to(tl.float32)[:, None], 0.0)
        tl.store(out + part * C, total.to(gradients.dtype.element_ty), mask=here)


@triton.jit
def scatter(parts, plan, table, row, splits, length, STRIDE: tl.constexpr, NODES: tl.constexpr, C: tl.constexpr,
            CHUNK: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Add up the splits' shares and put the gradients of each slot's weights in their place in the cell's row."""
    place, paths = tl.program_id(1), tl.num_programs(1) // (2 * NODES)
    slot, path = place // paths, place % paths
    source = tl.load(plan + (path * 2 * NODES + slot) * 2)
    code = tl.load(plan + (path * 2 * NODES + slot) * 2 + 1)
    kernel = tl.where((code == 3) | (code == 5), 3, 5)
    count = (kernel * kernel + C) * C
    count = tl.where((code == 3) | (code == 4), 2 * count, count)
    reduces = _reduces(code, source, STRIDE)
    count = tl.where(reduces, C * C, count)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if ((code >= 3) | reduces) & (tl.program_id(0) * BLOCK < count):
        total = tl.zeros([BLOCK], tl.float32)
        for begin in range(0, splits, CHUNK):
            split = begin + tl.arange(0, CHUNK)
            share = (split * 2 * NODES * paths + place).to(tl.int64)[:, None] * length + at[None, :]
            wanted = (split < splits)[:, None] & (at < count)[None, :]
            total += tl.sum(tl.load(parts + share, mask=wanted, other=0.0), 0)
        start = _place(table, slot // 2, source, code)
        tl.store(row + start + at, total, mask=at < count)
