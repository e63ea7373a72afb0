"""Kernels of a unit: ReLU, depthwise convolution (or none), 1×1 convolution, BatchNorm with offset and scale.

States are (pixels, channels), channels last; a program has a block of both. The input has HIGH lines of LONG pixels an
image, the output as many, or with STRIDE 2 half of them, rounded up. A unit's input may be what the unit before it
made, without its BatchNorm: `ahead`, rows 2 and 3 of that one's `norm`, is then applied as it is read.

    forward    convolve → mix → finish; deliver what leaves the last unit
    backward   reduce → finish_back → unmix, weigh → pull → total

`norm` has rows of C: mean, 1/deviation, and the factor and summand that normalise. `back` has rows of C: BatchNorm's
gradient is back₀ · gradient + back₁ · raw + back₂. DropPath multiplies what leaves, image by image, by `drop`.
The gradient that arrives may be some channels of a wider tensor: a pixel of it is `row` numbers behind the one before.
"""

import triton
import triton.language as tl


@triton.jit
def convolve(x, ahead, weights, out, pixels, HIGH: tl.constexpr, LONG: tl.constexpr, C: tl.constexpr,
             STRIDE: tl.constexpr, KERNEL: tl.constexpr, DILATION: tl.constexpr, AHEAD: tl.constexpr,
             BLOCK: tl.constexpr, WIDE: tl.constexpr):  # fmt: skip
    """The depthwise convolution of the positive part of x; `pixels` counts those of the output."""
    LINES: tl.constexpr = (HIGH + STRIDE - 1) // STRIDE
    COLUMNS: tl.constexpr = (LONG + STRIDE - 1) // STRIDE
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    known, inside = (channel < C)[None, :], pixel < pixels
    image, line, column = pixel // (LINES * COLUMNS), (pixel // COLUMNS) % LINES * STRIDE, pixel % COLUMNS * STRIDE
    middle = x + ((image * HIGH + line) * LONG + column)[:, None] * C + channel[None, :]
    if AHEAD:
        factor = tl.load(ahead + channel, mask=channel < C, other=0.0)[None, :]
        summand = tl.load(ahead + C + channel, mask=channel < C, other=0.0)[None, :]
    total = tl.zeros([BLOCK, WIDE], tl.float32)
    for tap in tl.static_range(KERNEL * KERNEL):
        down = (tap // KERNEL - KERNEL // 2) * DILATION
        right = (tap % KERNEL - KERNEL // 2) * DILATION
        there = inside & (line >= -down) & (line < HIGH - down) & (column >= -right) & (column < LONG - right)
        mask = there[:, None] & known
        value = tl.load(middle + (down * LONG + right) * C, mask=mask, other=0.0).to(tl.float32)
        if AHEAD:
            value = tl.where(mask, value * factor + summand, 0.0)
        weight = tl.load(weights + channel * (KERNEL * KERNEL) + tap, mask=channel < C, other=0.0)
        total += tl.maximum(value, 0.0) * weight[None, :]
    at = out + pixel[:, None] * C + channel[None, :]
    tl.store(at, total.to(out.dtype.element_ty), mask=inside[:, None] & known)


@triton.jit
def mix(x, weights, out, sums, splits, pixels, IN: tl.constexpr, OUT: tl.constexpr, RELU: tl.constexpr,
        BLOCK: tl.constexpr, WIDE: tl.constexpr, INNER: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """The 1×1 convolution by weights (out, in), with sums and sums of squares (splits, 2, out)."""
    split = tl.program_id(0)
    channel = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    known = channel < OUT
    total = tl.zeros([WIDE], tl.float32)
    square = tl.zeros([WIDE], tl.float32)
    for block in range(split, (pixels + BLOCK - 1) // BLOCK, splits):
        pixel = block * BLOCK + tl.arange(0, BLOCK)
        inside = (pixel < pixels)[:, None]
        made = tl.zeros([BLOCK, WIDE], tl.float32)
        for first in tl.static_range(0, IN, INNER):
            inner = first + tl.arange(0, INNER)
            value = tl.load(x + pixel[:, None] * IN + inner[None, :], mask=inside & (inner < IN)[None, :], other=0.0)
            if RELU:
                value = tl.where(value > 0, value, 0.0).to(value.dtype)
            both = known[None, :] & (inner < IN)[:, None]
            weight = tl.load(weights + channel[None, :] * IN + inner[:, None], mask=both, other=0.0)
            made = tl.dot(value, weight.to(value.dtype), made, input_precision=PRECISION)
        at = out + pixel[:, None] * OUT + channel[None, :]
        tl.store(at, made.to(out.dtype.element_ty), mask=inside & known[None, :])
        total += tl.sum(made, 0)
        square += tl.sum(made * made, 0)
    at = sums + split * 2 * OUT + channel
    tl.store(at, total, mask=known)
    tl.store(at + OUT, square, mask=known)


@triton.jit
def _sums(sums, channel, splits, C: tl.constexpr, WIDE: tl.constexpr, CHUNK: tl.constexpr):
    """Both sums of (splits, 2, channels)."""
    one = tl.zeros([WIDE], tl.float32)
    two = tl.zeros([WIDE], tl.float32)
    for begin in range(0, splits, CHUNK):
        split = begin + tl.arange(0, CHUNK)
        mask = (split < splits)[:, None] & (channel < C)[None, :]
        at = sums + split[:, None] * 2 * C + channel[None, :]
        one += tl.sum(tl.load(at, mask=mask, other=0.0), 0)
        two += tl.sum(tl.load(at + C, mask=mask, other=0.0), 0)
    return one, two


@triton.jit
def finish(sums, norm, scale, offset, mean, variance, count, splits, pixels, eps, momentum, C: tl.constexpr,
           WIDE: tl.constexpr, CHUNK: tl.constexpr):  # fmt: skip
    """BatchNorm's numbers from the sums; running averages are moved and the step is counted."""
    channel = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    known = channel < C
    one, two = _sums(sums, channel, splits, C, WIDE, CHUNK)
    here = one / pixels
    spread = tl.maximum(two / pixels - here * here, 0.0)
    inverse = tl.rsqrt(spread + eps)
    factor = tl.load(scale + channel, mask=known, other=0.0) * inverse
    tl.store(norm + channel, here, mask=known)
    tl.store(norm + C + channel, inverse, mask=known)
    tl.store(norm + 2 * C + channel, factor, mask=known)
    tl.store(norm + 3 * C + channel, tl.load(offset + channel, mask=known, other=0.0) - here * factor, mask=known)
    before = tl.load(mean + channel, mask=known, other=0.0)
    tl.store(mean + channel, before + momentum * (here - before), mask=known)
    before = tl.load(variance + channel, mask=known, other=0.0)
    unbiased = spread * (pixels / (pixels - 1))
    tl.store(variance + channel, before + momentum * (unbiased - before), mask=known)
    if tl.program_id(0) == 0:
        tl.store(count, tl.load(count) + 1)


@triton.jit
def deliver(raw, norm, drop, plus, out, pixels, IMAGE: tl.constexpr, C: tl.constexpr, DROP: tl.constexpr,
            PLUS: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr):  # fmt: skip
    """What leaves the last unit, added to `plus`."""
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    mask = (pixel < pixels)[:, None] & (channel < C)[None, :]
    at = pixel[:, None] * C + channel[None, :]
    factor = tl.load(norm + 2 * C + channel, mask=channel < C, other=0.0)[None, :]
    summand = tl.load(norm + 3 * C + channel, mask=channel < C, other=0.0)[None, :]
    value = tl.load(raw + at, mask=mask, other=0.0).to(tl.float32) * factor + summand
    if DROP:
        value *= tl.load(drop + pixel // IMAGE, mask=pixel < pixels, other=0.0)[:, None]
    if PLUS:
        value += tl.load(plus + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(out + at, value.to(out.dtype.element_ty), mask=mask)


@triton.jit
def _gradient(gradient, row, drop, pixel, pixels, channel, mask, IMAGE: tl.constexpr, DROP: tl.constexpr):
    """The gradient by what BatchNorm made."""
    at = pixel[:, None] * row + channel[None, :]
    value = tl.load(gradient + at, mask=mask, other=0.0).to(tl.float32)
    if DROP:
        value *= tl.load(drop + pixel // IMAGE, mask=pixel < pixels, other=0.0)[:, None]
    return value


@triton.jit
def reduce(gradient, row, drop, raw, norm, sums, splits, pixels, IMAGE: tl.constexpr, C: tl.constexpr,
           DROP: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr):  # fmt: skip
    """Sums of the gradient, and of it times the normalised values: (splits, 2, C)."""
    split = tl.program_id(0)
    channel = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    known = channel < C
    mean = tl.load(norm + channel, mask=known, other=0.0)[None, :]
    inverse = tl.load(norm + C + channel, mask=known, other=0.0)[None, :]
    one = tl.zeros([BLOCK, WIDE], tl.float32)
    two = tl.zeros([BLOCK, WIDE], tl.float32)
    for block in range(split, (pixels + BLOCK - 1) // BLOCK, splits):
        pixel = block * BLOCK + tl.arange(0, BLOCK)
        mask = (pixel < pixels)[:, None] & known[None, :]
        at = pixel[:, None] * C + channel[None, :]
        slope = _gradient(gradient, row, drop, pixel, pixels, channel, mask, IMAGE, DROP)
        value = tl.load(raw + at, mask=mask, other=0.0).to(tl.float32)
        one += slope
        two += slope * (value - mean) * inverse
    at = sums + split * 2 * C + channel
    tl.store(at, tl.sum(one, 0), mask=known)
    tl.store(at + C, tl.sum(two, 0), mask=known)


@triton.jit
def finish_back(sums, norm, back, by_scale, by_offset, splits, pixels, C: tl.constexpr, WIDE: tl.constexpr,
                CHUNK: tl.constexpr):  # fmt: skip
    """From the sums what BatchNorm's gradient is made of, and those by scale and offset."""
    channel = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    known = channel < C
    one, two = _sums(sums, channel, splits, C, WIDE, CHUNK)
    tl.store(by_offset + channel, one, mask=known)
    tl.store(by_scale + channel, two, mask=known)
    one, two = one / pixels, two / pixels
    mean = tl.load(norm + channel, mask=known, other=0.0)
    inverse = tl.load(norm + C + channel, mask=known, other=0.0)
    factor = tl.load(norm + 2 * C + channel, mask=known, other=0.0)
    tl.store(back + channel, factor, mask=known)
    tl.store(back + C + channel, -factor * inverse * two, mask=known)
    tl.store(back + 2 * C + channel, factor * (mean * inverse * two - one), mask=known)


@triton.jit
def _undone(gradient, row, drop, raw, back, pixel, pixels, channel, IMAGE: tl.constexpr, C: tl.constexpr,
            DROP: tl.constexpr):  # fmt: skip
    """The gradient by what the 1×1 convolution made: BatchNorm's backward pass."""
    known = channel < C
    mask = (pixel < pixels)[:, None] & known[None, :]
    at = pixel[:, None] * C + channel[None, :]
    slope = _gradient(gradient, row, drop, pixel, pixels, channel, mask, IMAGE, DROP)
    value = tl.load(raw + at, mask=mask, other=0.0).to(tl.float32)
    by_slope = tl.load(back + channel, mask=known, other=0.0)[None, :]
    by_value = tl.load(back + C + channel, mask=known, other=0.0)[None, :]
    summand = tl.load(back + 2 * C + channel, mask=known, other=0.0)[None, :]
    undone = tl.where(mask, by_slope * slope + by_value * value + summand, 0.0)
    return undone.to(raw.dtype.element_ty)


@triton.jit
def unmix(gradient, row, drop, raw, back, weights, x, out, pixels, IMAGE: tl.constexpr, IN: tl.constexpr,
          OUT: tl.constexpr, DROP: tl.constexpr, RELU: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
          INNER: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """The gradient by what the 1×1 convolution read."""
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    made = tl.zeros([BLOCK, WIDE], tl.float32)
    for first in tl.static_range(0, OUT, INNER):
        inner = first + tl.arange(0, INNER)
        slope = _undone(gradient, row, drop, raw, back, pixel, pixels, inner, IMAGE, OUT, DROP)
        both = (inner < OUT)[:, None] & (channel < IN)[None, :]
        weight = tl.load(weights + inner[:, None] * IN + channel[None, :], mask=both, other=0.0)
        made = tl.dot(slope, weight.to(slope.dtype), made, input_precision=PRECISION)
    mask = (pixel < pixels)[:, None] & (channel < IN)[None, :]
    at = pixel[:, None] * IN + channel[None, :]
    if RELU:
        made = tl.where(tl.load(x + at, mask=mask, other=0.0) > 0, made, 0.0)
    tl.store(out + at, made.to(out.dtype.element_ty), mask=mask)


@triton.jit
def weigh(gradient, row, drop, raw, back, x, parts, splits, pixels, IMAGE: tl.constexpr, IN: tl.constexpr,
          OUT: tl.constexpr, DROP: tl.constexpr, RELU: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
          PRECISION: tl.constexpr):  # fmt: skip
    """The gradient by the 1×1 convolution's weights, a part for every split: (splits, out, in)."""
    split = tl.program_id(0)
    made = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    channel = tl.program_id(2) * WIDE + tl.arange(0, WIDE)
    total = tl.zeros([WIDE, WIDE], tl.float32)
    for block in range(split, (pixels + BLOCK - 1) // BLOCK, splits):
        pixel = block * BLOCK + tl.arange(0, BLOCK)
        slope = _undone(gradient, row, drop, raw, back, pixel, pixels, made, IMAGE, OUT, DROP)
        mask = (pixel < pixels)[:, None] & (channel < IN)[None, :]
        value = tl.load(x + pixel[:, None] * IN + channel[None, :], mask=mask, other=0.0)
        if RELU:
            value = tl.where(value > 0, value, 0.0).to(value.dtype)
        total = tl.dot(tl.trans(slope), value, total, input_precision=PRECISION)
    both = (made < OUT)[:, None] & (channel < IN)[None, :]
    tl.store(parts + (split * OUT + made[:, None]) * IN + channel[None, :], total, mask=both)


@triton.jit
def pull(x, ahead, slope, weights, out, parts, pixels, HIGH: tl.constexpr, LONG: tl.constexpr, C: tl.constexpr,
         STRIDE: tl.constexpr, KERNEL: tl.constexpr, DILATION: tl.constexpr, AHEAD: tl.constexpr,
         BLOCK: tl.constexpr, WIDE: tl.constexpr):  # fmt: skip
    """From the gradient `slope` by a depthwise convolution those by x and by the weights (blocks, taps, C), in parts.

    Both need the same values: the gradient at the pixels that see a pixel of x. `pixels` counts those of x. With
    `ahead` the gradient is that by the normalised x.
    """
    LINES: tl.constexpr = (HIGH + STRIDE - 1) // STRIDE
    COLUMNS: tl.constexpr = (LONG + STRIDE - 1) // STRIDE
    block = tl.program_id(0)
    pixel = block * BLOCK + tl.arange(0, BLOCK)
    channel = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    known, inside = channel < C, pixel < pixels
    here = inside[:, None] & known[None, :]
    image, line, column = pixel // (HIGH * LONG), (pixel // LONG) % HIGH, pixel % LONG
    at = pixel[:, None] * C + channel[None, :]
    value = tl.load(x + at, mask=here, other=0.0).to(tl.float32)
    if AHEAD:
        factor = tl.load(ahead + channel, mask=known, other=0.0)[None, :]
        summand = tl.load(ahead + C + channel, mask=known, other=0.0)[None, :]
        value = tl.where(here, value * factor + summand, 0.0)
    positive = tl.maximum(value, 0.0)
    total = tl.zeros([BLOCK, WIDE], tl.float32)
    for tap in tl.static_range(KERNEL * KERNEL):
        down = (tap // KERNEL - KERNEL // 2) * DILATION
        right = (tap % KERNEL - KERNEL // 2) * DILATION
        there = inside & (line >= down) & (line < HIGH + down) & (column >= right) & (column < LONG + right)
        if STRIDE == 1:
            spot = at - (down * LONG + right) * C
        else:
            there = there & ((line - down) % STRIDE == 0) & ((column - right) % STRIDE == 0)
            spot = (image * LINES + (line - down) // STRIDE) * COLUMNS + (column - right) // STRIDE
            spot = spot[:, None] * C + channel[None, :]
        seen = tl.load(slope + spot, mask=there[:, None] & known[None, :], other=0.0).to(tl.float32)
        weight = tl.load(weights + channel * (KERNEL * KERNEL) + tap, mask=known, other=0.0)
        total += seen * weight[None, :]
        part = parts + (block * (KERNEL * KERNEL) + tap) * C + channel
        tl.store(part, tl.sum(positive * seen, 0), mask=known)
    tl.store(out + at, tl.where(value > 0, total, 0.0).to(out.dtype.element_ty), mask=here)


@triton.jit(do_not_specialize=["splits", "more_splits"])
def total(parts, splits, numbers, columns, more, more_splits, more_numbers, out, MORE: tl.constexpr,
          BLOCK: tl.constexpr, CHUNK: tl.constexpr):  # fmt: skip
    """Add up parts (splits, rows, columns), which are turned, and behind them more (more_splits, more_numbers)."""
    place = tl.program_id(0)
    if MORE:
        first = (numbers + BLOCK - 1) // BLOCK
        if place >= first:
            place -= first
            parts, splits = more, more_splits
            out += numbers
            numbers, columns = more_numbers, more_numbers
    number = place * BLOCK + tl.arange(0, BLOCK)
    found = tl.zeros([CHUNK, BLOCK], tl.float32)
    for begin in range(0, splits, CHUNK):
        split = begin + tl.arange(0, CHUNK)
        mask = (split < splits)[:, None] & (number < numbers)[None, :]
        found += tl.load(parts + split[:, None] * numbers + number[None, :], mask=mask, other=0.0)
    turned = number % columns * (numbers // columns) + number // columns
    tl.store(out + turned, tl.sum(found, 0), mask=number < numbers)
