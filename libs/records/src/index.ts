export { CallBodies, type BodySettings } from './call-bodies.js';
export { bodyAccess, CallBodyReader } from './call-body-reader.js';
export { CallFeed } from './call-feed.js';
export { CallRecorder } from './call-recorder.js';
export { NatsCallRecords } from './call-records.js';
export { Purges, type PurgeCounts, type PurgeRecord, type PurgeStep } from './purges.js';
export { scannedKeys } from './redis-purge-scan.js';
export { RedisPurgeStore } from './redis-purge-store.js';
