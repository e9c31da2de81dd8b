export { Code, Raindrop } from './client.js';
export { RaindropError } from './errors.js';
export type { ErrorKind } from './errors.js';
export type {
  CallOptions,
  Clock,
  DroppedEvent,
  RaindropEvent,
  RaindropOptions,
  RequestEvent,
  WaitEvent,
} from './types.js';
