import { Button } from '@mantine/core'
import { IconPlus } from '@tabler/icons-react'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { routingRules } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import type { Domain } from '../../api/types'
import { DataTable } from '../../kit/list/DataTable'
import { Loaded } from '../../kit/state/Loaded'
import { paths } from '../../paths'
import { Prefix } from './marks'
import classes from './Proxy.module.css'
import { shadowed } from './shadow'
import { useBackends } from './useSites'

/** The routing rules of a domain, in order. They are edited on their own page. */
export function DomainRules({ domain }: { domain: Domain }) {
  const { t } = useTranslation('proxy')
  const canEdit = useCanEdit()
  const { byId } = useBackends()
  const query = useQuery({ queryKey: [routingRules.kind], queryFn: routingRules.list })
  return (
    <section className={classes.part} aria-label={t('routing.title')}>
      <header>
        <h3>{t('routing.title')}</h3>
        {canEdit && (
          <Button
            component={Link}
            to={paths.routingRuleNew}
            state={{ draft: { domain_id: domain.id } } as never}
            size="compact-sm"
            variant="default"
            leftSection={<IconPlus size={14} aria-hidden />}
          >
            {t('routing.create')}
          </Button>
        )}
      </header>
      <Loaded query={query} height={60}>
        {(all) => {
          const rows = all.filter((rule) => rule.domain_id === domain.id)
          const hidden = shadowed(rows)
          if (rows.length === 0)
            return <p className="soft">{t('routing.noneHere', { name: byId.get(domain.backend_id)?.name })}</p>
          return (
            <div className={classes.boxed}>
              <DataTable
                label={t('routing.title')}
                rows={rows}
                rowKey={(row) => row.id}
                rowLink={(row) => paths.routingRule(row.id)}
                columns={[
                  {
                    key: 'prefix',
                    header: t('routing.path_prefix.label'),
                    width: 'minmax(0, 1.5fr)',
                    cell: (row) => <Prefix rule={row} by={hidden.get(row.id)} />,
                  },
                  {
                    key: 'backend',
                    header: t('routing.backend_id.label'),
                    cell: (row) => byId.get(row.backend_id)?.name,
                  },
                ]}
              />
            </div>
          )
        }}
      </Loaded>
    </section>
  )
}
