export { CallRecorder } from './call-recorder.js';
export { RecentCalls, RecentCallsFeed, type StoredRecentCall } from './recent-calls.js';
export { RedisRecentCalls } from './redis-recent-calls.js';
