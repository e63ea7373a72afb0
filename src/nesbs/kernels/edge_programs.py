"""Kernels of a cell whose operations are data: one program text serves every architecture.

A cell of n nodes has an edge between every two; `codes` (paths, edges) says what each path does on each edge:
nothing, hand on, a 1×1 or 3×3 convolution of the ReLU with BatchNorm, a mean over 3×3. States are (paths, pixels,
channels), where pixels run over images, rows and columns. Edge (target, source) has the number
target (target − 1) / 2 + source. Weights of an edge lie in a row: 1×1 as (out, in), then 3×3 as (out, tap, in). All
paths share the rows, or each has its own. BatchNorm may have an offset and a scale, `affine`, and running averages of
mean and variance, `running`, both (edges, paths, two, channels).

With PARTS of partial channels above 1, only the first C / PARTS channels go through an operation and the others pass by
every edge that is one; then channel c of part p goes to c · PARTS + p. The weights that would mix them are 0.

    forward    for each source: convolve the ReLU along all its edges, sums of squares on the way → finish
               for each target: assemble what arrives
    backward   for each target, from the last: sums for BatchNorm → finish → undo BatchNorm
               for each source: pull the gradient of all its edges; weigh: the weights' gradients
"""

import triton
import triton.language as tl

NOTHING, SKIP, CONV1, CONV3, POOL = range(5)  # codes


@triton.jit
def _reach(pixel, pixels, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    """Nine bits a pixel: whether the neighbour that each tap of a 3×3 window sees lies in the image."""
    row, column = (pixel // WIDTH) % HEIGHT, pixel % WIDTH
    rows = tl.where(row > 0, 0b000000111, 0) | 0b000111000 | tl.where(row < HEIGHT - 1, 0b111000000, 0)
    columns = tl.where(column > 0, 0b001001001, 0) | 0b010010010 | tl.where(column < WIDTH - 1, 0b100100100, 0)
    return tl.where(pixel < pixels, rows & columns, 0)


@triton.jit
def _shuffled(channel, C: tl.constexpr, PARTS: tl.constexpr):
    """Where a channel goes at the end of an edge."""
    if PARTS > 1:
        channel = (channel % (C // PARTS)) * PARTS + channel // (C // PARTS)
    return channel


@triton.jit
def _worked_on(inside, channel, C: tl.constexpr, PARTS: tl.constexpr):
    """Which channels (pixels, channels) go through an operation."""
    if PARTS > 1:
        inside = inside & (channel < C // PARTS)[None, :]
    return inside


@triton.jit
def _handed_on(inside, channel, code, C: tl.constexpr, PARTS: tl.constexpr):
    """Which channels (pixels, channels) stay as they are: all, or those that pass an operation by."""
    if PARTS > 1:
        inside = inside & ((code == 1) | (channel >= C // PARTS))[None, :]
    return inside


@triton.jit(do_not_specialize=["source"])
def convolve(x, x_path, weights, w_path, codes, raw, sums, splits, pixels, source, EDGES: tl.constexpr,
             HEIGHT: tl.constexpr, WIDTH: tl.constexpr, C: tl.constexpr,
             ROW: tl.constexpr, FIRST3: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr,
             PRECISION: tl.constexpr):  # fmt: skip
    """Raw convolutions on every edge that leaves a source, and their sums and sums of squares; x is the ReLU's."""
    split, path, paths = tl.program_id(0), tl.program_id(2), tl.num_programs(2)
    target = source + 1 + tl.program_id(1)
    edge = target * (target - 1) // 2 + source
    code = tl.load(codes + path * EDGES + edge)
    if (code == 2) | (code == 3):
        taps = tl.where(code == 3, 9, 1)
        middle = tl.where(code == 3, 0, 4)  # the tap to begin with
        weight = weights + path * w_path + edge * ROW + tl.where(code == 3, FIRST3, 0)
        place = edge * paths + path
        channel = tl.arange(0, C)
        inner = tl.arange(0, TAPS * C)  # of TAPS taps at once
        total = tl.zeros([BLOCK, C], tl.float32)  # added up over threads once, at the end
        square = tl.zeros([BLOCK, C], tl.float32)
        for block in range(split, (pixels + BLOCK - 1) // BLOCK, splits):
            pixel = block * BLOCK + tl.arange(0, BLOCK)
            reach = _reach(pixel, pixels, HEIGHT, WIDTH)[:, None]
            here = x + path * x_path + pixel[:, None] * C + (inner % C)[None, :]
            out = tl.zeros([BLOCK, C], tl.float32)
            for first in range(0, taps, TAPS):
                spot = (first + inner // C + middle)[None, :]  # beyond the last none is in reach, or its weight is 0
                value = tl.load(
                    here + ((spot // 3 - 1) * WIDTH + spot % 3 - 1) * C, mask=(reach >> spot) & 1 != 0, other=0.0
                )
                at = first * C + inner[:, None]
                w = tl.load(weight + channel[None, :] * (taps * C) + at, mask=at < taps * C, other=0.0)
                out = tl.dot(value, w, out, input_precision=PRECISION)
            at = place.to(tl.int64) * pixels * C + pixel[:, None] * C + channel[None, :]
            tl.store(raw + at, out.to(raw.dtype.element_ty), mask=(pixel < pixels)[:, None])
            total += out
            square += out * out
        at = (place * splits + split) * 2 * C + channel
        tl.store(sums + at, tl.sum(total, 0))
        tl.store(sums + at + C, tl.sum(square, 0))


@triton.jit
def moments(x, sums, splits, pixels, C: tl.constexpr, BLOCK: tl.constexpr):
    """Sums and sums of squares of (paths, pixels, channels)."""
    split, path = tl.program_id(0), tl.program_id(1)
    channel = tl.arange(0, C)
    total = tl.zeros([BLOCK, C], tl.float32)
    square = tl.zeros([BLOCK, C], tl.float32)
    for block in range(split, (pixels + BLOCK - 1) // BLOCK, splits):
        pixel = block * BLOCK + tl.arange(0, BLOCK)
        at = path.to(tl.int64) * pixels * C + pixel[:, None] * C + channel[None, :]
        value = tl.load(x + at, mask=(pixel < pixels)[:, None], other=0.0).to(tl.float32)
        total += value
        square += value * value
    at = (path * splits + split) * 2 * C + channel
    tl.store(sums + at, tl.sum(total, 0))
    tl.store(sums + at + C, tl.sum(square, 0))


@triton.jit(do_not_specialize=["source", "target"])
def finish(sums, statistics, running, codes, splits, pixels, source, target, eps, momentum, EDGES: tl.constexpr,
           C: tl.constexpr, FORWARD: tl.constexpr, RUNNING: tl.constexpr, CHUNK: tl.constexpr):  # fmt: skip
    """Add up what the splits found: mean and 1/deviation, and move running averages; or backward the two means.

    Edges are those that leave `source`, or where it is negative those that enter `target`.
    """
    path, paths = tl.program_id(1), tl.num_programs(1)
    if source >= 0:
        entered = source + 1 + tl.program_id(0)
        edge = entered * (entered - 1) // 2 + source
    else:
        edge = target * (target - 1) // 2 + tl.program_id(0)
    code = tl.load(codes + path * EDGES + edge)
    if (code == 2) | (code == 3):
        channel = tl.arange(0, C)
        place = edge * paths + path
        one = tl.zeros([C], tl.float32)
        two = tl.zeros([C], tl.float32)
        for begin in range(0, splits, CHUNK):
            split = begin + tl.arange(0, CHUNK)
            at = (place * splits + split)[:, None] * 2 * C + channel[None, :]
            one += tl.sum(tl.load(sums + at, mask=(split < splits)[:, None], other=0.0), 0)
            two += tl.sum(tl.load(sums + at + C, mask=(split < splits)[:, None], other=0.0), 0)
        one, two = one / pixels, two / pixels
        if FORWARD:
            variance = tl.maximum(two - one * one, 0.0)
            two = tl.rsqrt(variance + eps)
            if RUNNING:
                at = running + place * 2 * C + channel
                mean, unbiased = tl.load(at), tl.load(at + C)
                tl.store(at, mean + momentum * (one - mean))
                variance = variance * (pixels / (pixels - 1))
                tl.store(at + C, unbiased + momentum * (variance - unbiased))
        tl.store(statistics + place * 2 * C + channel, one)
        tl.store(statistics + place * 2 * C + C + channel, two)


@triton.jit(do_not_specialize=["target"])
def assemble(x, x_path, states, positive, raw, statistics, affine, codes, pixels, target, EDGES: tl.constexpr,
             HEIGHT: tl.constexpr, WIDTH: tl.constexpr, C: tl.constexpr, AFFINE: tl.constexpr,
             POSITIVE: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr = 1):  # fmt: skip
    """A target's state, the sum of what its edges bring, and where it is wanted its ReLU."""
    path, paths = tl.program_id(1), tl.num_programs(1)
    channel = tl.arange(0, C)
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, column = (pixel // WIDTH) % HEIGHT, pixel % WIDTH
    inside = (pixel < pixels)[:, None]
    here = pixel[:, None] * C + channel[None, :]
    size = pixels * C
    out = tl.zeros([BLOCK, C], tl.float32)
    for source in range(target):
        edge = target * (target - 1) // 2 + source
        code = tl.load(codes + path * EDGES + edge)
        before = ((tl.maximum(source, 1) - 1) * paths + path).to(tl.int64) * size
        place = edge * paths + path
        if (code == 1) | ((PARTS > 1) & (code > 1)):
            handed = _handed_on(inside, channel, code, C, PARTS)
            if source == 0:
                value = tl.load(x + path * x_path + here, mask=handed, other=0.0)
            else:
                value = tl.load(states + before + here, mask=handed, other=0.0)
            out += value.to(tl.float32)
        if (code == 2) | (code == 3):
            mean = tl.load(statistics + place * 2 * C + channel)
            scale = tl.load(statistics + place * 2 * C + C + channel)
            value = tl.load(raw + place.to(tl.int64) * size + here, mask=inside, other=0.0)
            value = (value.to(tl.float32) - mean[None, :]) * scale[None, :]
            if AFFINE:
                offset = tl.load(affine + place * 2 * C + channel)
                value = value * tl.load(affine + place * 2 * C + C + channel)[None, :] + offset[None, :]
            out += value
        if code == 4:
            total = tl.zeros([BLOCK, C], tl.float32)
            for tap in range(9):
                down, right = tap // 3 - 1, tap % 3 - 1
                there = (pixel < pixels) & (row + down >= 0) & (row + down < HEIGHT)
                there = there & (column + right >= 0) & (column + right < WIDTH)
                seen = _worked_on(there[:, None], channel, C, PARTS)
                at = (pixel + down * WIDTH + right)[:, None] * C + channel[None, :]
                if source == 0:
                    value = tl.load(x + path * x_path + at, mask=seen, other=0.0)
                else:
                    value = tl.load(states + before + at, mask=seen, other=0.0)
                total += value.to(tl.float32)
            high = 3 - (row == 0).to(tl.int32) - (row == HEIGHT - 1).to(tl.int32)
            wide = 3 - (column == 0).to(tl.int32) - (column == WIDTH - 1).to(tl.int32)
            out += total / (high * wide).to(tl.float32)[:, None]
    here = pixel[:, None] * C + _shuffled(channel, C, PARTS)[None, :]
    at = ((target - 1) * paths + path).to(tl.int64) * size + here
    tl.store(states + at, out.to(states.dtype.element_ty), mask=inside)
    if POSITIVE:
        tl.store(positive + at, tl.maximum(out, 0.0).to(states.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["target"])
def reduce(gradient, raw, statistics, codes, sums, splits, pixels, target, EDGES: tl.constexpr,
           C: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr = 1):  # fmt: skip
    """For BatchNorm's backward pass on the edges into a target: sums of the gradient, and of it times the output."""
    split, path, paths = tl.program_id(0), tl.program_id(2), tl.num_programs(2)
    edge = target * (target - 1) // 2 + tl.program_id(1)
    code = tl.load(codes + path * EDGES + edge)
    if (code == 2) | (code == 3):
        channel = tl.arange(0, C)
        place = edge * paths + path
        mean = tl.load(statistics + place * 2 * C + channel)
        scale = tl.load(statistics + place * 2 * C + C + channel)
        one = tl.zeros([BLOCK, C], tl.float32)
        two = tl.zeros([BLOCK, C], tl.float32)
        for block in range(split, (pixels + BLOCK - 1) // BLOCK, splits):
            pixel = block * BLOCK + tl.arange(0, BLOCK)
            inside, here = (pixel < pixels)[:, None], pixel[:, None] * C + channel[None, :]
            start = gradient + path.to(tl.int64) * pixels * C + pixel[:, None] * C
            went = _worked_on(inside, channel, C, PARTS)
            slope = tl.load(start + _shuffled(channel, C, PARTS)[None, :], mask=went, other=0.0).to(tl.float32)
            value = tl.load(raw + place.to(tl.int64) * pixels * C + here, mask=inside, other=0.0).to(tl.float32)
            one += slope
            two += slope * (value - mean[None, :]) * scale[None, :]
        at = (place * splits + split) * 2 * C + channel
        tl.store(sums + at, tl.sum(one, 0))
        tl.store(sums + at + C, tl.sum(two, 0))


@triton.jit(do_not_specialize=["target"])
def undo(gradient, raw, out, statistics, means, affine, codes, pixels, target, EDGES: tl.constexpr,
         C: tl.constexpr, AFFINE: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr = 1):  # fmt: skip
    """BatchNorm's backward pass: the gradient by the raw outputs, which `out` may be."""
    path, paths = tl.program_id(2), tl.num_programs(2)
    edge = target * (target - 1) // 2 + tl.program_id(1)
    code = tl.load(codes + path * EDGES + edge)
    if (code == 2) | (code == 3):
        channel = tl.arange(0, C)
        place = edge * paths + path
        mean = tl.load(statistics + place * 2 * C + channel)[None, :]
        scale = tl.load(statistics + place * 2 * C + C + channel)[None, :]
        one = tl.load(means + place * 2 * C + channel)[None, :]
        two = tl.load(means + place * 2 * C + C + channel)[None, :]
        pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside, here = (pixel < pixels)[:, None], pixel[:, None] * C + channel[None, :]
        start = gradient + path.to(tl.int64) * pixels * C + pixel[:, None] * C
        went = _worked_on(inside, channel, C, PARTS)
        slope = tl.load(start + _shuffled(channel, C, PARTS)[None, :], mask=went, other=0.0).to(tl.float32)
        at = place.to(tl.int64) * pixels * C + here
        value = (tl.load(raw + at, mask=inside, other=0.0).to(tl.float32) - mean) * scale
        if AFFINE:
            scale = scale * tl.load(affine + place * 2 * C + C + channel)[None, :]
        tl.store(out + at, (scale * (slope - one - value * two)).to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["source"])
def pull(x, x_path, positive, gradients, last, weights, w_path, raw, codes, out, pixels, source, NODES: tl.constexpr,
         EDGES: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, C: tl.constexpr,
         ROW: tl.constexpr, FIRST3: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr,
         PRECISION: tl.constexpr, PARTS: tl.constexpr = 1):  # fmt: skip
    """The gradient by a source's state: what comes back along all the edges that leave it.

    `gradients` holds those by the nodes between the first and the last, `last` those by the last; `raw` by now those by
    the convolutions' outputs. x and `positive` are the ReLU's.
    """
    path, paths = tl.program_id(1), tl.num_programs(1)
    channel = tl.arange(0, C)
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, column = (pixel // WIDTH) % HEIGHT, pixel % WIDTH
    inside = (pixel < pixels)[:, None]
    here = pixel[:, None] * C + channel[None, :]
    shuffled = pixel[:, None] * C + _shuffled(channel, C, PARTS)[None, :]
    size = pixels * C
    total = tl.zeros([BLOCK, C], tl.float32)
    through = tl.zeros([BLOCK, C], tl.float32)  # the ReLU
    reach = _reach(pixel, pixels, HEIGHT, WIDTH)[:, None]
    inner = tl.arange(0, TAPS * C)  # of TAPS taps at once
    for target in range(source + 1, NODES):
        edge = target * (target - 1) // 2 + source
        code = tl.load(codes + path * EDGES + edge)
        if target == NODES - 1:
            slope = last + path.to(tl.int64) * size
        else:
            slope = gradients + ((target - 1) * paths + path).to(tl.int64) * size
        if (code == 1) | ((PARTS > 1) & (code > 1)):
            handed = _handed_on(inside, channel, code, C, PARTS)
            total += tl.load(slope + shuffled, mask=handed, other=0.0).to(tl.float32)
        if (code == 2) | (code == 3):
            taps = tl.where(code == 3, 9, 1)
            middle = tl.where(code == 3, 0, 4)
            back = raw + (edge * paths + path).to(tl.int64) * size + pixel[:, None] * C + (inner % C)[None, :]
            weight = weights + path * w_path + edge * ROW + tl.where(code == 3, FIRST3, 0)
            for first in range(0, taps, TAPS):
                tap = first + inner // C
                spot = 8 - (tap + middle)[None, :]  # where the tap sees this pixel from
                wanted = (reach >> tl.maximum(spot, 0)) & (spot >= 0).to(tl.int32) & 1
                value = tl.load(back + ((spot // 3 - 1) * WIDTH + spot % 3 - 1) * C, mask=wanted != 0, other=0.0)
                at = ((inner % C) * (taps * C) + tap * C)[:, None] + channel[None, :]
                w = tl.load(weight + at, mask=(tap < taps)[:, None], other=0.0)
                through = tl.dot(value, w, through, input_precision=PRECISION)
        if code == 4:
            for tap in range(9):
                down, right = tap // 3 - 1, tap % 3 - 1
                up, left = row - down, column - right
                there = (pixel < pixels) & (up >= 0) & (up < HEIGHT) & (left >= 0) & (left < WIDTH)
                at = shuffled - (down * WIDTH + right) * C
                seen = _worked_on(there[:, None], channel, C, PARTS)
                high = 3 - (up == 0).to(tl.int32) - (up == HEIGHT - 1).to(tl.int32)
                wide = 3 - (left == 0).to(tl.int32) - (left == WIDTH - 1).to(tl.int32)
                value = tl.load(slope + at, mask=seen, other=0.0).to(tl.float32)
                total += value / (high * wide).to(tl.float32)[:, None]
    if source == 0:
        state = tl.load(x + path * x_path + here, mask=inside, other=0.0)
    else:
        state = tl.load(positive + ((source - 1) * paths + path).to(tl.int64) * size + here, mask=inside, other=0.0)
    total += tl.where(state > 0, through, 0.0)
    tl.store(out + path.to(tl.int64) * size + here, total.to(out.dtype.element_ty), mask=inside)


@triton.jit
def weigh(x, x_path, positive, raw, codes, parts, w_path, splits, length, pixels, NODES: tl.constexpr,
          EDGES: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, C: tl.constexpr, ROW: tl.constexpr,
          FIRST3: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """The gradients by the weights of every edge, one part for each split: (splits, weights); x is the ReLU's."""
    split, first = tl.program_id(0), tl.program_id(1) * TAPS
    edge, path, paths = tl.program_id(2) % EDGES, tl.program_id(2) // EDGES, tl.num_programs(2) // EDGES
    code = tl.load(codes + path * EDGES + edge)
    if (code == 3) | ((code == 2) & (first == 0)):
        source = edge
        for target in tl.static_range(2, NODES):
            source = tl.where(edge >= target * (target - 1) // 2, edge - target * (target - 1) // 2, source)
        taps = tl.where(code == 3, 9, 1)
        middle = tl.where(code == 3, 0, 4)
        channel = tl.arange(0, C)
        inner = tl.arange(0, TAPS * C)  # of TAPS taps at once
        size = pixels * C
        tap = (first + inner // C)[:, None]
        down, right = (tap + middle) // 3 - 1, (tap + middle) % 3 - 1
        total = tl.zeros([TAPS * C, C], tl.float32)  # (in, out)
        if source == 0:  # noqa: SIM108
            base = x + path * x_path
        else:
            base = positive + ((source - 1) * paths + path).to(tl.int64) * size
        place = (edge * paths + path).to(tl.int64) * size
        for block in range(split, (pixels + BLOCK - 1) // BLOCK, splits):
            pixel = block * BLOCK + tl.arange(0, BLOCK)
            row, column = ((pixel // WIDTH) % HEIGHT)[None, :], (pixel % WIDTH)[None, :]
            there = (pixel < pixels)[None, :] & (tap < taps) & (row + down >= 0) & (row + down < HEIGHT)
            there = there & (column + right >= 0) & (column + right < WIDTH)
            at = (pixel[None, :] + down * WIDTH + right) * C + (inner % C)[:, None]
            value = tl.load(base + at, mask=there, other=0.0)
            at = place + pixel[:, None] * C + channel[None, :]
            slope = tl.load(raw + at, mask=(pixel < pixels)[:, None], other=0.0)
            total = tl.dot(value, slope, total, input_precision=PRECISION)
        start = path * w_path + edge * ROW + tl.where(code == 3, FIRST3, 0)
        at = channel[None, :] * (taps * C) + first * C + inner[:, None]
        tl.store(parts + split * length + start + at, total, mask=tap < taps)
