//! The engine against the API's definition: `table` reads elements as the kernel does, `world` makes
//! clusters at random, `storm` compares, `cases` are the promises one by one, `cost` is for people.

mod cases;
mod cost;
mod storm;
mod table;
mod world;
