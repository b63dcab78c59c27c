export { CallRecorder } from './call-recorder.js';
export { RecentCalls, RecentCallsFeed, type StoredRecentCall } from './recent-calls.js';
export { RedisRecentCalls } from './redis-recent-calls.js';
export { Purges, type PurgeCounts, type PurgeRecord, type PurgeStep } from './purges.js';
export { scannedKeys } from './redis-purge-scan.js';
export { RedisPurgeStore } from './redis-purge-store.js';
