export { endChild, eventually, freePort, spawnChild } from './child-process.js';
export { FakeClock } from './fake-clock.js';
export { startNats, type NatsServer, type NatsServerOptions } from './nats-server.js';
export { startRedis, type RedisServer, type RedisServerOptions } from './redis-server.js';
