import { useDebouncedValue } from '@mantine/hooks'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useSearch } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import type { ListSearch } from '../../kit/list/list-logic'
import { RowList } from '../../kit/list/ResourceList'
import { count } from '../../kit/text/format'
import { AlertsLink } from './marks'
import classes from './Waf.module.css'

/** The gateway returns at most this many rules. */
const most = 200

/** Tags that every rule has, that repeat other columns, or that cite standards. */
const dull = /^(OWASP_CRS|OWASP_TOP|paranoia-level|capec|PCI|WASC|application-multi|language-multi|platform-multi)/i
const telling = (tags: readonly string[]) => tags.filter((tag) => !dull.test(tag))

/** The core rule set, searched by the gateway. */
export default function Rules() {
  const { t } = useTranslation('waf')
  const [q] = useDebouncedValue((useSearch({ strict: false }) as ListSearch).q, 300)
  const query = useQuery({
    queryKey: ['waf', 'rules', q],
    queryFn: () => unwrap(http.GET('/waf/rules', { params: { query: { q } } })),
    placeholderData: keepPreviousData,
    staleTime: Number.POSITIVE_INFINITY,
  })
  return (
    <RowList
      query={query}
      rowsOf={(rules) => rules.map((rule) => ({ ...rule, id: String(rule.id) }))}
      text="waf:rule"
      columns={[
        {
          key: 'id',
          header: t('rule.id'),
          width: '80px',
          cell: ({ id }) => <span className="mono">{id}</span>,
          sortBy: ({ id }) => Number(id),
        },
        {
          key: 'message',
          header: t('rule.message'),
          width: 'minmax(0, 2fr)',
          cell: ({ message }) => message || <span className="soft">–</span>,
          sortBy: ({ message }) => message,
        },
        {
          key: 'severity',
          header: t('rule.severity'),
          width: '104px',
          cell: ({ severity }) => severity.toLowerCase() || '–',
          sortBy: ({ severity }) => severity,
        },
        {
          key: 'level',
          header: t('rule.level'),
          width: '80px',
          align: 'right',
          cell: ({ paranoia_level: level }) => level || <span className="soft">–</span>,
          sortBy: ({ paranoia_level: level }) => level,
        },
        {
          key: 'tags',
          header: t('rule.tags'),
          width: 'minmax(0, 1.6fr)',
          cell: ({ tags }) => (
            <span className={classes.tags}>
              {telling(tags).map((tag) => (
                <span key={tag}>{tag}</span>
              ))}
            </span>
          ),
        },
        {
          key: 'alerts',
          header: '',
          width: '60px',
          align: 'right',
          cell: ({ id }) => (
            <AlertsLink of={{ rule_id: id }} label={t('rule.alertsOf', { id })}>
              {t('rule.alerts')}
            </AlertsLink>
          ),
        },
      ]}
      end={query.data?.length === most && <p className={classes.nothing}>{t('rule.first', { number: count(most) })}</p>}
    />
  )
}
