import type { RoleSummary } from '@toolfleet/client';
import { useSigned } from '../session.js';
import { Badge, Loaded } from '../ui/components.js';
import { useQuery } from '../use-query.js';

/** What keys and signed-in users can be, with the rights that follow and the groups that give them. */
export function Roles() {
  const { api } = useSigned();
  const query = useQuery('roles', api.roles);
  return (
    <section className="card stack" aria-labelledby="roles">
      <h2 id="roles">Roles</h2>
      <Loaded query={query}>
        {(roles) => (
          <table className="table">
            <thead>
              <tr>
                <th scope="col">Role</th>
                <th scope="col">Rights</th>
                <th scope="col">Groups with it</th>
              </tr>
            </thead>
            <tbody>
              {roles.map((role) => (
                <RoleRow key={role.name} role={role} />
              ))}
            </tbody>
          </table>
        )}
      </Loaded>
    </section>
  );
}

function RoleRow({ role: { name, rights, declared, groups } }: { role: RoleSummary }) {
  return (
    <tr>
      <td className="lead">
        <strong>{name}</strong> {declared === 'config' && <Badge>configuration file</Badge>}
      </td>
      <td data-label="Rights">{rights.join(', ') || 'none'}</td>
      <td data-label="Groups">{groups.join(', ') || 'none'}</td>
    </tr>
  );
}
