export { Clock, SystemClock, type CancelTimer } from './clock.js';
