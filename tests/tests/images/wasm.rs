//! WebAssembly that no toolchain would write: byte by byte, as the specification has it.

/// A number in LEB128.
fn leb(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or_default();
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

/// Bytes with their length before them.
fn sized(bytes: &[u8]) -> Vec<u8> {
    [leb(bytes.len()), bytes.to_vec()].concat()
}

fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [vec![id], sized(content)].concat()
}

/// A program whose `_start` is the first of these functions; each is its code, without its end, over `locals` numbers.
fn program(functions: &[Vec<u8>], locals: usize) -> Vec<u8> {
    let locals = if locals == 0 { vec![0] } else { [vec![1], leb(locals), vec![0x7e]].concat() };
    let bodies: Vec<u8> =
        functions.iter().flat_map(|code| sized(&[locals.clone(), code.clone(), vec![0x0b]].concat())).collect();
    [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, b"\x01\x60\0\0"),
        section(3, &[leb(functions.len()), vec![0; functions.len()]].concat()),
        section(7, &[vec![1], sized(b"_start"), vec![0, 0]].concat()),
        section(10, &[leb(functions.len()), bodies].concat()),
    ]
    .concat()
}

/// Blocks in blocks: a small file that takes a compiler minutes.
pub(crate) fn nested_blocks(depth: usize) -> Vec<u8> {
    program(&[[b"\x02\x40".repeat(depth), b"\x0b".repeat(depth)].concat()], 0)
}

/// So many functions.
pub(crate) fn many_functions(count: usize) -> Vec<u8> {
    program(&vec![b"\x41\x01\x1a".repeat(8); count], 0)
}

/// One function of so many additions.
pub(crate) fn giant_function(additions: usize) -> Vec<u8> {
    program(&[b"\x20\0\x42\x03\x7c\x21\0".repeat(additions)], 1)
}

/// Jump tables out of loops in loops, with so many numbers alive on every way.
pub(crate) fn jump_tables(depth: usize, tables: usize, targets: usize, numbers: usize) -> Vec<u8> {
    let count_up: Vec<u8> = (0..numbers)
        .flat_map(|local| [vec![0x20], leb(local), b"\x42\x01\x7c\x21".to_vec(), leb(local)].concat())
        .collect();
    let ways: Vec<u8> = (0..targets).flat_map(|target| leb(1 + target * 7 % (depth - 1))).collect();
    let table = [count_up, b"\x02\x40\x20\0\xa7\x0e".to_vec(), leb(targets), ways, vec![0, 0x0b]].concat();
    let code = [b"\x03\x40".repeat(depth), table.repeat(tables), b"\x0b".repeat(depth)].concat();
    program(&[code], numbers)
}

/// A program with `bytes` bytes of data in it that do not pack well, so that its machine code is as large.
pub(crate) fn large(bytes: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0] | 1
    })
    .take(bytes)
    .collect();
    let pages = bytes.div_ceil(65_536) + 1;
    [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, b"\x01\x60\0\0"),
        section(3, b"\x01\0"),
        section(5, &[vec![1, 0], leb(pages)].concat()),
        section(7, &[vec![2], sized(b"_start"), vec![0, 0], sized(b"memory"), vec![2, 0]].concat()),
        section(10, b"\x01\x02\0\x0b"),
        section(11, &[b"\x01\0\x41\0\x0b".to_vec(), sized(&noise)].concat()),
    ]
    .concat()
}

/// A component that imports this interface, with one function in it.
pub(crate) fn component_that_imports(interface: &str) -> Vec<u8> {
    // An instance type: a function type without parameters and result, and an export of it.
    let function = b"\x01\x40\0\x01\0".to_vec();
    let export = [b"\x04\0".to_vec(), sized(b"read"), b"\x01\0".to_vec()].concat();
    let instance = [b"\x01\x42\x02".to_vec(), function, export].concat();
    let import = [b"\x01\0".to_vec(), sized(interface.as_bytes()), b"\x05\0".to_vec()].concat();
    [b"\0asm\x0d\0\x01\0".to_vec(), section(7, &instance), section(10, &import)].concat()
}
