//! The engine against the API's definition: `table` reads elements as the kernel does, `world` makes
//! clusters at random, `storm` compares, `cases` are the promises one by one.

mod cases;
mod storm;
mod table;
mod world;
