"""Small but real ELF files: shared objects that ld, ldconfig and readelf accept, and cubins.

Layouts: System V gABI for the shared object; the fatbin container and the cubin header as measured on nvcc 13.0.88.
"""

import struct

X86_64, AARCH64, CUDA = 62, 183, 190


def shared_object(soname=None, needed=(), fatbin=b"", machine=X86_64):
    """One that defines the symbol `trueup_lab`, with the given DT_SONAME and DT_NEEDED; fatbin goes to .nv_fatbin."""
    strings = bytearray(b"\0")

    def string(text):
        offset = len(strings)
        strings.extend(text.encode() + b"\0")
        return offset

    symbol = string("trueup_lab")
    dynamic = [(1, string(name)) for name in needed]
    if soname:
        dynamic.append((14, string(soname)))
    names = bytearray(b"\0")

    def section_name(text):
        offset = len(names)
        names.extend(text.encode() + b"\0")
        return offset

    header_size = 64 + 3 * 56
    hash_at = header_size
    hash_table = struct.pack("<6I", 1, 2, 1, 0, 0, 0)  # one bucket, two symbols, chains end at once
    symbols_at = hash_at + len(hash_table)
    strings_at = symbols_at + 2 * 24
    fatbin_at = -(-(strings_at + len(strings)) // 8) * 8
    dynamic_at = -(-(fatbin_at + len(fatbin)) // 8) * 8
    dynamic += [(4, hash_at), (5, strings_at), (6, symbols_at), (10, len(strings)), (11, 24), (0, 0)]
    dynamic_bytes = b"".join(struct.pack("<QQ", *entry) for entry in dynamic)
    end = dynamic_at + len(dynamic_bytes)
    symbols = bytes(24) + struct.pack("<IBBHQQ", symbol, 0x11, 0, 4, strings_at, 1)
    sections = [struct.pack("<IIQQQQIIQQ", *[0] * 10)]

    def section(name, kind, flags, offset, size, link, info, alignment, entry):
        sections.append(
            struct.pack(
                "<IIQQQQIIQQ",
                section_name(name),
                kind,
                flags,
                offset if flags else 0,
                offset,
                size,
                link,
                info,
                alignment,
                entry,
            )
        )

    section(".hash", 5, 2, hash_at, len(hash_table), 2, 0, 8, 4)
    section(".dynsym", 11, 2, symbols_at, len(symbols), 3, 1, 8, 24)
    section(".dynstr", 3, 2, strings_at, len(strings), 0, 0, 1, 0)
    section(".nv_fatbin", 1, 2, fatbin_at, len(fatbin), 0, 0, 8, 0)
    section(".dynamic", 6, 3, dynamic_at, len(dynamic_bytes), 3, 0, 8, 16)
    names_at = end
    section(".shstrtab", 3, 0, names_at, len(names) + len(".shstrtab") + 1, 0, 0, 1, 0)
    sections_at = -(-(names_at + len(names)) // 8) * 8
    header = (
        b"\x7fELF"
        + bytes([2, 1, 1, 0])
        + bytes(8)
        + struct.pack(
            "<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, sections_at, 0, 64, 56, 3, 64, len(sections), len(sections) - 1
        )
    )
    load = struct.pack("<IIQQQQQQ", 1, 6, 0, 0, 0, end, end, 4096)
    table = struct.pack(
        "<IIQQQQQQ", 2, 6, dynamic_at, dynamic_at, dynamic_at, len(dynamic_bytes), len(dynamic_bytes), 8
    )
    stack = struct.pack("<IIQQQQQQ", 0x6474E551, 6, 0, 0, 0, 0, 0, 16)
    image = bytearray(sections_at)
    for at, part in (
        (0, header + load + table + stack),
        (hash_at, hash_table),
        (symbols_at, symbols),
        (strings_at, strings),
        (fatbin_at, fatbin),
        (dynamic_at, dynamic_bytes),
        (names_at, names),
    ):
        image[at : at + len(part)] = part
    return bytes(image) + b"".join(sections)


def split_target(target):
    """'sm_120f' -> (120, 'f')."""
    text = target.removeprefix("sm_").removeprefix("compute_")
    return int(text.rstrip("af")), text[len(text.rstrip("af")) :]


def cubin(target, release):
    """A device ELF for `target` that says it was assembled by CUDA `release` ('12.8')."""
    number, variant = split_target(target)
    major, minor = (int(part) for part in release.split(".")[:2])
    if major >= 13:
        abi, version, flags = 8, 1, 0x06000002 | number << 8
    else:
        abi, version, flags = 7, 10 * major + minor, number << 16 | (0x800 if variant else 0) | number
    header = (
        b"\x7fELF"
        + bytes([2, 1, 1, 51, abi])
        + bytes(7)
        + struct.pack("<HHIQQQIHHHHHH", 2, CUDA, version, 0, 0, 0, flags, 64, 56, 0, 64, 0, 0)
    )
    note = "ptxas\0Cuda compilation tools, release %s, V%s.0\0-arch %s -m 64\0" % (release, release, target)
    return header + note.encode()


def fatbin(targets, release):
    """The .nv_fatbin container with one uncompressed cubin per target."""
    entries = b""
    for target in targets:
        number, variant = split_target(target)
        payload = cubin(target, release)
        payload += bytes(-len(payload) % 8)
        flags = 0x11 | {"a": 0x100000, "f": 0x200000}.get(variant, 0)
        entries += struct.pack("<HHIQIIHHI8xQ8xQ", 2, 0x0101, 64, len(payload), 0, 0, 7, 1, number, flags, len(payload))
        entries += payload
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries if targets else b""
