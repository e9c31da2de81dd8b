export { Code, Raindrop } from './client.js';
export { RaindropError } from './errors.js';
