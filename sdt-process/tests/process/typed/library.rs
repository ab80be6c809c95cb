//! A library whose functions have arguments of many types. The tests compile it with and without optimisation.

use std::cell::Cell;
use std::hint::black_box;
use std::marker::PhantomData;

pub struct Id(u64);

pub enum Colour {
    Red,
    Green,
}

pub struct Large {
    pub name: String,
    pub count: u64,
}

pub mod people {
    pub struct Customer {
        pub id: u64,
        pub name: String,
        pub home: (i32, i32),
    }
}

pub struct Price {
    pub cents: u32,
}

pub enum State {
    Open,
    Closed(u64),
    Both { count: i32, time: u64 },
}

pub struct Order<'a> {
    pub small: u8,
    pub price: Price,
    pub customer: &'a people::Customer,
    pub label: &'a str,
    pub codes: [u16; 3],
    pub items: Vec<Price>,
    pub next: Option<Box<Order<'a>>>,
    pub r#type: Id,
    pub state: State,
    pub mark: PhantomData<u8>,
    pub ratio: f64,
    pub wide: u128,
    pub tries: Cell<i16>,
    pub colour: Colour,
    pub bytes: Vec<u8>,
}

impl Order<'_> {
    #[inline(never)]
    fn submit(&self, other: Option<&Self>, all: &[Price]) -> u64 {
        black_box((self, other, all));
        u64::from(self.price.cents)
    }
}

#[inline(never)]
fn wild(order: *const Order, text: &String) {
    black_box((order, text));
}

#[inline(never)]
fn state(one: &State) {
    black_box(one);
}

#[inline(never)]
fn customer(one: &people::Customer) -> u64 {
    black_box(one).id
}

fn submit_orders() -> u64 {
    let customer = people::Customer { id: 77, name: black_box("Ada").to_owned(), home: (-3, 4) };
    let order = |cents, next| Order {
        small: 7,
        price: Price { cents },
        customer: &customer,
        label: black_box("first\0 order"),
        codes: [10, 20, 30],
        items: vec![Price { cents: 5 }, Price { cents: 6 }],
        next,
        r#type: Id(9),
        state: State::Closed(black_box(9)),
        mark: PhantomData,
        ratio: black_box(0.5),
        wide: black_box(3 << 64 | 2),
        tries: Cell::new(-2),
        colour: Colour::Green,
        bytes: black_box(b"bytes").to_vec(),
    };
    let order = order(1250, Some(Box::new(order(80, None))));
    wild(black_box(0x1234_5678_9abc_def0 as *const Order), black_box(&"text".to_owned()));
    state(&black_box(State::Both { count: -4, time: 5 }));
    black_box(State::Open);
    order.submit(black_box(None), black_box(&[Price { cents: 1 }, Price { cents: 2 }]))
        + self::customer(&customer)
}

#[inline(never)]
fn numbers(tiny: u8, small: i16, medium: u32, large: i64, is_new: bool, letter: char) -> i16 {
    black_box((tiny, small, medium, large, is_new, letter));
    black_box(small)
}

/// The optimiser removes the first parameter and the result: the callers know the value.
#[inline(never)]
fn shifted(first: i16, second: u32) -> i16 {
    black_box((second, 17_u64));
    first
}

#[inline(never)]
fn texts(path: &str, data: &[u8], words: &[u32]) -> usize {
    black_box((path, data, words));
    path.len()
}

#[inline(never)]
fn others(count: &u32, id: Id, colour: Colour, wide: u128) -> bool {
    black_box((count, wide));
    matches!(colour, Colour::Green) && id.0 > 0
}

#[inline(never)]
fn large(first: u32, value: Large, ratio: f64) -> u64 {
    black_box((first, ratio));
    value.count + value.name.len() as u64
}

#[inline(never)]
fn seven(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, seventh: u64) -> u64 {
    black_box((a, b, c, d, e, f));
    seventh
}

#[inline(never)]
fn generic<T>(value: T, times: u32) -> u32 {
    black_box(&value);
    times
}

#[inline(never)]
fn pair(value: u64) -> (u64, u64) {
    black_box((value, value + 1))
}

#[inline(never)]
fn first(common: u8) -> u64 {
    black_box(u64::from(common))
}

#[inline(never)]
fn fourth(a: u64, b: u64, c: u64, common: i64) -> i64 {
    black_box((a, b, c));
    black_box(common)
}

#[inline(never)]
fn nothing(value: i32) {
    black_box(value);
}

#[unsafe(no_mangle)]
pub extern "C" fn drive() -> u64 {
    let mut sum = u64::from(numbers(
        black_box(200),
        black_box(-300),
        black_box(4_000_000_000),
        black_box(-5),
        black_box(true),
        black_box('x'),
    ) == -300);
    let removed = black_box(-7);
    sum += u64::from(shifted(removed, black_box(11)) == removed);
    sum += texts(black_box("/cart"), black_box(b"ab"), black_box(&[7, 8, 9])) as u64;
    let colours = [Colour::Red, Colour::Green];
    for colour in colours {
        sum += u64::from(others(black_box(&42), black_box(Id(17)), black_box(colour), black_box(3 << 64 | 2)));
    }
    let value = Large { name: black_box("abc").to_owned(), count: black_box(4) };
    sum += large(black_box(1), black_box(value), black_box(0.5));
    sum += seven(
        black_box(1),
        black_box(2),
        black_box(3),
        black_box(4),
        black_box(5),
        black_box(6),
        black_box(7),
    );
    sum += u64::from(generic(black_box(1_u64), black_box(2)));
    sum += u64::from(generic(black_box("text"), black_box(3)));
    sum += pair(black_box(1)).1;
    sum += first(black_box(21));
    sum += fourth(black_box(1), black_box(2), black_box(3), black_box(22)) as u64;
    nothing(black_box(-9));
    sum += submit_orders();
    sum
}
