import { startService } from '@toolfleet/service';
import service from './service.js';

await startService(service);
