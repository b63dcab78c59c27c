export { bundleForTest, type TestProgram } from './bundle-for-test.js';
export { endChild, eventually, freePort, spawnChild } from './child-process.js';
export { FakeClock } from './fake-clock.js';
export { startRecordingServer, type RecordedRequest, type RecordingServer } from './fixtures/recording-server.js';
export { startNats, type NatsServer, type NatsServerOptions } from './nats-server.js';
export { POSTGRES_PROGRAMS, startPostgres, type PostgresServer } from './postgres-server.js';
export { startRedis, type RedisServer, type RedisServerOptions } from './redis-server.js';
export { startServiceProcess, type ServiceProcess, type ServiceProcessOptions } from './service-process.js';
