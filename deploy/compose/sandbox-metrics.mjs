/** Forwards connections to the metrics of the sandbox. Listens at the address by which it reaches NATS, because the sandbox cannot reach that. */
import { createSocket } from 'node:dgram';
import { connect, createServer } from 'node:net';

const PORT = 9464;

// Connecting a datagram socket sends nothing; it tells the address of this end.
const towardsNats = createSocket('udp4');
towardsNats.connect(4222, 'nats', () => {
  const { address } = towardsNats.address();
  towardsNats.close();
  createServer((from) => {
    const to = connect(PORT, 'python-sandbox');
    for (const [one, other] of [
      [from, to],
      [to, from],
    ]) {
      one.pipe(other);
      one.on('error', () => other.destroy());
    }
  }).listen(PORT, address);
});
process.once('SIGTERM', () => process.exit(0));
