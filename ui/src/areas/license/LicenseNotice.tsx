import './texts'
import { Button } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import type { License } from '../../api/types'
import { Notice } from '../../kit/state/Notice'
import { paths } from '../../paths'
import { standingOf } from './standing'

/** Says that the license needs an admin's attention. Nothing is broken, so it is only a warning. */
export default function LicenseNotice({ license }: { license: License }) {
  const { t } = useTranslation('license')
  return (
    <Notice
      tone="warn"
      title={t(`notice.${standingOf(license)}`, { count: license.days_left ?? 0 })}
      action={
        <Button component={Link} to={paths.license} size="compact-sm" variant="default">
          {t('notice.verb')}
        </Button>
      }
    >
      {license.reason}
    </Notice>
  )
}
